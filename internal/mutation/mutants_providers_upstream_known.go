package main

// What the tests killed when the list was made.
func init() {
	add("providers/upstream",
		mutant{
			ID: "private-addresses", In: "public",
			What: "a definition reaches into the private network",
			Old:  " || addr.IsPrivate()", New: "",
			Run: "Addresses",
		},
		mutant{
			ID: "translated-addresses", In: "public",
			What: "a private address reached by way of IPv6 is not seen",
			Old:  "translated.Contains(addr)", New: "false",
			Run: "Addresses",
		},
		mutant{
			ID: "carrier-nat", In: "reserved",
			What: "the addresses of a cloud's metadata are reached",
			Old:  "	netip.MustParsePrefix(\"100.64.0.0/10\"), // carrier-grade NAT, and some clouds' metadata\n", New: "",
			Run: "Addresses",
		},
		mutant{
			ID: "redirects", In: "noRedirect",
			What: "a redirect takes the key elsewhere",
			Old:  "return http.ErrUseLastResponse", New: "return nil",
			Run: "RedirectsAreNotFollowed",
		},
		mutant{
			ID: "tls-minimum", In: "NewClient",
			What: "old TLS is spoken",
			Old:  "max(transport.TLSClientConfig.MinVersion, tls.VersionTLS12)", New: "max(transport.TLSClientConfig.MinVersion, tls.VersionTLS10)",
			Run: "NoTimeoutOfItsOwn",
		},
		mutant{
			ID: "proxy-of-the-environment", In: "NewClient",
			What: "the environment chooses a proxy",
			Old:  "		MaxIdleConns:           inflight.MaxDefault,\n", New: "		MaxIdleConns:           inflight.MaxDefault,\n		Proxy:                  http.ProxyFromEnvironment,\n",
			Run: "NothingIsTakenFromTheEnvironment",
		},
		mutant{
			ID: "azure-retry-after", In: "RetryAfter",
			What: "x-ms-retry-after-ms is ignored",
			Old:  `, "X-Ms-Retry-After-Ms"`, New: "",
			Run: "RetryAfter",
		},
		mutant{
			ID: "queries-in-errors", In: "redact",
			What: "error texts have the query of a URL",
			Old:  "	text = urlQuery.ReplaceAllString(text, \"$1?\"+redacted)\n", New: "",
			Run: "Redact",
		},
		mutant{
			ID: "error-bodies", In: "limiter.RoundTrip",
			What: "the body of an error may be as large as an answer",
			Old:  "= MaxErrorBody, true", New: "= MaxStream, true",
			Run: "BodiesAreLimited",
		},
		mutant{
			ID: "bodies-tied", In: "limiter.RoundTrip",
			What: "a body is read on after the end of its call's context",
			Old:  "_ = body.body.Close()", New: "_ = body",
			Run: "ABodyEndsWithTheContext",
		},
		mutant{
			ID: "no-switch", In: "limiter.RoundTrip",
			What: "the connection of a 101 stays open",
			Old:  "resp.Body.Close()", New: "",
			Run: "NoOtherProtocol",
		},
		mutant{
			ID: "permanent-failures", In: "policy.checkRetry",
			What: "a bad certificate is tried again",
			Old:  " || permanent(err)", New: "",
			Run: "ABadCertificateIsNotRetried",
		},
		mutant{
			ID: "large-events", In: "EventReader.take",
			What: "an event may be as large as it likes",
			Old:  "len(e.data)+len(value)+1 > e.limit", New: "false",
			Run: "EventReaderErrors",
		},
		mutant{
			ID: "cut-arguments", In: "ToolCalls.finish",
			What: "a tool call that was cut is taken for whole",
			Old:  "!json.Valid([]byte(c.arguments.String()))", New: "false",
			Run: "BrokenToolCalls",
		},
		mutant{
			ID: "mixed-calls", In: "ToolCalls.take",
			What: "the pieces of a tool call come between those of another one",
			Old:  "over := c.ended || t.done", New: "over := true",
			Run: "ToolCalls",
		},
		mutant{
			ID: "thoughts-without-a-limit", In: "thoughts.fits",
			What: "the thoughts of an answer have no ceiling",
			Old:  "t.size > MaxBody", New: "false",
			Run: "ThoughtLimits",
		},
	)
}
