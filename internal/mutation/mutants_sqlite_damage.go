package main

func init() {
	add("internal/store/sqlite",
		mutant{
			ID: "damage-unheard", In: "watch.note",
			What: "damage that a read meets is not reported",
			Old:  "isCorrupt(err)", New: "false",
			Run: "DamageInUse|IdleStore",
		},
		mutant{
			ID: "damage-not-remembered", In: "shared.damageOf",
			What: "a damaged file goes on taking metrics",
			Old:  "return s.damage.err", New: "return nil",
			Run: "DamageInUse",
		},
		mutant{
			ID: "short-read", In: "isDamage",
			What: "a file that was cut off is not damaged",
			Old:  "code == sqlite3.SQLITE_IOERR_SHORT_READ", New: "false",
			Run: "NoFalseDamage",
		},
		mutant{
			ID: "io-error-is-damage", In: "isDamage",
			What: "an error of reading sets a sound file aside",
			Old:  "sqlite3.SQLITE_NOTADB", New: "sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR",
			Run: "NoFalseDamage",
		},
		mutant{
			ID: "another-file-set-aside", In: "setAside",
			What: "the file that took the place of a damaged one is set aside",
			Old:  "sameFile(path, damaged) != nil", New: "false",
			Run: "FileOfAnother",
		},
		mutant{
			ID: "idle-store-waits", In: "shared.found",
			What: "an idle store goes on with a damaged file",
			Old:  "store.breakOff()", New: "_ = store",
			Run: "IdleStore",
		},
		mutant{
			ID: "io-error", In: "classify",
			What: "a write that failed does not reopen the file",
			Old:  "resultCode(err) == sqlite3.SQLITE_IOERR", New: "false",
			Run: "WriteErrorReopens",
		},
		mutant{
			ID: "another-file-under-the-path", In: "sameFile",
			What: "another file under the path is not noticed",
			Old:  "!os.SameFile(info, opened)", New: "false && !os.SameFile(info, opened)",
			Run: "ReplacedFile",
		},
		mutant{
			ID: "no-background-checkpoint", In: "Store.Commit",
			What: "what is committed without a sync is never synced",
			Old:  "s.written.Store(true)", New: "s.written.Load()",
			Run: "LogIsCopied",
		},
		mutant{
			ID: "erasure-before-its-metrics", In: "Outbox.next",
			What: "an erasure is delivered before the reports before it",
			Old:  "d.Position.Metrics >= until.Metrics", New: "true",
			Run: "ErasureComesAfter",
		},
		mutant{
			ID: "open-copy", In: "setAside",
			What: "a damaged file stays readable by others when it is set aside",
			Old:  "private.Restrict(aside + suffix)", New: `private.Restrict("")`,
			Run: "TestFilesThatOthersCanRead",
		},
		mutant{
			ID: "mode-by-the-umask", In: "createFile",
			What: "an odd umask takes the owner's rights from a new store",
			Old:  "	private.RestrictFile(file)\n", New: "",
			Run: "TestModesWhateverTheUmask",
		},
		mutant{
			ID: "others-not-warned-of", In: "Open",
			What: "no warning says that others can read the store",
			Old:  "private.Warn(config.Logger, target, ", New: "private.Warn(config.Logger, target+\"-\", ",
			Run: "TestFilesThatOthersCanRead",
		},
	)
}
