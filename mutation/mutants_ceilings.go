package main

func init() {
	add("caddymodule",
		mutant{
			ID: "max-metadata-size", In: "App.answer",
			What: "max_metadata_size has no effect",
			Old:  "c.request.SetMetadataLimit(c.workspace.MaxMetadataSize)", New: "",
			Run: "TestMetadataCeiling",
		},
	)
	add("wire",
		mutant{
			ID: "metadata-of-endpoints", In: "Request.Endpoint",
			What: "the metadata of a request for an endpoint has no ceiling",
			Old:  "r.metadataMember(body)", New: `objectMember(body, "metadata")`,
			Run: "MetadataCeiling",
		},
		mutant{
			ID: "metadata-of-pairs", In: "Request.TraceMetrics",
			What: "the metadata of a query string has no ceiling",
			Old:  "r.checkMetadata(m.Metadata)", New: "(*Error)(nil)",
			Run: "MetadataCeiling",
		},
		mutant{
			ID: "texts-of-reports", In: "Request.metricsRecord",
			What: "the texts of a report have no ceiling",
			Old:  "m.checkTexts()", New: "(*Error)(nil)",
			Run: "ReportTextCeilings",
		},
	)
	add("invoke",
		mutant{
			ID: "names-of-upstreams", In: "attempt.close",
			What: "the names that an upstream gives have no ceiling",
			Old:  "withShortNames(a.stream.Result())", New: "a.stream.Result()",
			Run: "NamesOfUpstreams",
		},
	)
	add("store/sqlite",
		mutant{
			ID: "room-of-lists", In: "shortWithin",
			What: "a list counts metadata alone",
			Old:  "record.Size()", New: "len(record.Metadata)",
			Run: "ListsAreBounded",
		},
	)
}
