# Caddy with Cadenza, as one static binary that runs without root and without a
# shell beside it:
#
#	docker build -t cadenza .
#	docker run -p 8080:8080 -e CADENZA_API_KEY \
#		-v ./Caddyfile:/etc/caddy/Caddyfile:ro -v ./definitions:/srv/definitions:ro \
#		-v cadenza:/data cadenza
#
# The Caddyfile names the store below /data (store sqlite /data/cadenza.db) and the
# definitions as they are mounted (definitions /srv/definitions).
FROM --platform=$BUILDPLATFORM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
# As xcaddy.sh builds it.
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags '-s -w' \
	-tags nobadger,nomysql,nopgx -o /root-of-image/usr/bin/caddy ./cmd/caddy
WORKDIR /root-of-image
# Certificates of authorities are for calls of providers. The binary has the time
# zones.
RUN mkdir -p -m 0755 etc/caddy etc/ssl/certs srv usr/share/doc/cadenza \
	&& mkdir -m 0700 data config && mkdir -m 1777 tmp \
	&& cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ \
	&& cp /src/LICENSE usr/share/doc/cadenza/ \
	&& echo 'cadenza:x:65532:65532::/data:/sbin/nologin' > etc/passwd \
	&& chown 65532:65532 data config

FROM scratch
COPY --from=build /root-of-image /
ENV XDG_DATA_HOME=/data XDG_CONFIG_HOME=/config
VOLUME ["/data", "/config"]
WORKDIR /srv
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/bin/caddy"]
CMD ["run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
