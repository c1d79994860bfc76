package main

func init() {
	add("caddymodule",
		mutant{
			ID: "order-before-respond", In: "orderDirectives",
			What: "cadenza answers the health checks and /metrics of its site",
			Old:  `"reverse_proxy"`, New: `"respond"`,
			Run: "TestOrderOfDirectives",
		},
		mutant{
			ID: "order-after-reverse-proxy", In: "orderDirectives",
			What: "a reverse_proxy on the site answers for cadenza",
			Old:  `httpcaddyfile.Before, "reverse_proxy"`, New: `httpcaddyfile.After, "reverse_proxy"`,
			Run: "TestOrderOfDirectives",
		},
		mutant{
			ID: "order-cadenza-first", In: "orderDirectives",
			What: "cadenza answers for the directives of one route each",
			Old:  `"cadenza_prompts", "cadenza_endpoints", "cadenza_remoteconfigs", "cadenza_decisions", "cadenza_metrics", "cadenza"`,
			New:  `"cadenza", "cadenza_prompts", "cadenza_endpoints", "cadenza_remoteconfigs", "cadenza_decisions", "cadenza_metrics"`,
			Run:  "TestOrderOfDirectives",
		},
		mutant{
			ID: "sink-always-of-its-name", In: "Workspace.unmarshalSink",
			What: "the word after a sink's name is never its module",
			Old:  "module = d.Val()", New: "d.Prev()",
			Run: "TestAdapt|TestTwoFiles",
		},
		mutant{
			ID: "sink-word-is-taken", In: "Workspace.unmarshalSink",
			What: "the word after the name of a sink is lost when it is no module",
			Old:  "d.Prev()", New: "",
			Run: "TestAdapt",
		},
		mutant{
			ID: "sink-literal-repeated", In: "Workspace.unmarshalSink",
			What: "an error repeats a connection string",
			Old:  `is one of %s", name,`, New: `%s", d.Val(),`,
			Run: "TestAdapt",
		},
		mutant{
			ID: "any-store", In: "Workspace.provisionStore",
			What: "a store of another module is opened as SQLite",
			Old:  `m != "" && m != storeModule`, New: "false && m != storeModule",
			Run: "TestStoreModule",
		},
		mutant{
			ID: "store-without-module", In: "Workspace.unmarshalStore",
			What: "a Caddyfile's store adapts to JSON without its module",
			Old:  "w.Store = &Store{Module: storeModule}", New: "w.Store = new(Store)",
			Run: "TestAdapt|TestStoreModule",
		},
	)
}
