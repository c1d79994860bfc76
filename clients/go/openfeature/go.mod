module github.com/cadenza-gateway/cadenza/clients/go/openfeature

go 1.26.0

require (
	github.com/cadenza-gateway/cadenza/clients/go v0.0.0
	github.com/open-feature/go-sdk v1.20.0
)

require go.uber.org/mock v0.6.0 // indirect

replace github.com/cadenza-gateway/cadenza/clients/go => ../
