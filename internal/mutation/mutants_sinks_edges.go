package main

func init() {
	add("sinks/jsonlines",
		mutant{
			ID: "logrotate-create", In: "File.open",
			What: "a file that logrotate makes at once gets no lines",
			Old:  "os.SameFile(info, opened)", New: "(info == nil || opened != nil)",
			Run: "File",
		},
		mutant{
			ID: "mode-by-the-umask", In: "File.open",
			What: "an odd umask takes the owner's rights from a new file",
			Old:  "		private.RestrictFile(file)\n", New: "",
			Run: "TestModeWhateverTheUmask",
		},
		mutant{
			ID: "others-not-warned-of", In: "File.open",
			What: "no warning says that others can read the file",
			Old:  "private.Warn(f.Logger, f.path)", New: "private.Warn(f.Logger)",
			Run: "TestFileThatOthersCanRead",
		},
	)
}
