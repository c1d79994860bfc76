module github.com/cadenza-gateway/cadenza/clients/go

go 1.26.0
