package main

// How files are read and watched, and what an endpoint's policy makes of them.
func init() {
	add("internal/definition",
		mutant{
			ID: "file-size", In: "loader.parseText",
			What: "the message for a file that is too large has the size of the part that was read",
			Old:  "f.size", New: "int64(len(f.data))",
			Run: "Unreadable",
		},
		mutant{
			ID: "ten-fallbacks", In: "decodeFallback",
			What: "there may be more targets than attempts",
			Old:  "len(n.Items) >= invoke.MaxAttempts", New: "len(n.Items) > invoke.MaxAttempts",
			Run: "Fallbacks",
		},
		mutant{
			ID: "retry-count-in-the-version", In: "Policy.content",
			What: "another retry.count is no new version",
			Old:  "p.Retry.Count != nil", New: "false",
			Run: "RetryIsPart",
		},
		mutant{
			ID: "weight-in-the-version", In: "Policy.content",
			What: "a weight that is not given is in the version",
			Old:  "p.Weights[i+1] > 0", New: "p.Weights[i+1] >= 0",
			Run: "WeightsAndHedgeArePart",
		},
		mutant{
			ID: "no-statuses", In: "Retry.decode",
			What: "an empty on_codes is none given",
			Old:  "r.OnCodes = []int{}", New: "r.OnCodes = nil",
			Run: "Retry",
		},
		mutant{
			ID: "watch-before-reading", In: "watcher.run",
			What: "new folders are read before they are watched",
			Old:  "\t\t\tw.sync()\n\t\t\tw.reload()", New: "\t\t\tw.reload()",
			Run: "NewFolders",
		},
		mutant{
			ID: "configmap", In: "watcher.concerns",
			What: "a swap of Kubernetes' ..data is no news",
			Old:  `strings.HasPrefix(name, "..")`, New: `strings.HasPrefix(name, "\x00")`,
			Run: "ConfigMapIsSeen",
		},
		mutant{
			ID: "folders-too-deep", In: "watcher.folders",
			What: "folders are watched that are not read",
			Old:  "len(parents) == maxFolders", New: "len(parents) > maxFolders",
			Run: "WatchedFolders",
		},
		mutant{
			ID: "watch-in-silence", In: "newWatcher",
			What: "a source that can't be watched says nothing",
			Old:  "\tif err != nil {\n\t\treturn nil, err\n\t}\n\tw := ", New: "\tif err != nil {\n\t\treturn nil, nil\n\t}\n\tw := ",
			Run: "WithoutDescriptors",
		},
		mutant{
			ID: "descriptors", In: "directory.settled",
			What: "the last folder of a loading stays open",
			Old:  "\t\tif here != nil {\n\t\t\there.Close()\n\t\t}\n\t}()", New: "\t}()",
			Run: "NothingStaysOpen",
		},
	)
}
