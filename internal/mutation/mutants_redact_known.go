package main

// What the tests killed when the list was made.
func init() {
	add("internal/redact",
		mutant{
			ID: "placeholders", In: "finder.password",
			What: "${PASSWORD} is redacted as if it were one",
			Old:  " && !isPlaceholder(password)", New: "",
			Run: "Findings",
		},
		mutant{
			ID: "no-luhn", In: "isCard",
			What: "any sixteen digits are a card",
			Old:  "return sum%10 == 0", New: "return sum >= 0",
			Run: "Findings",
		},
		mutant{
			ID: "pem-without-lines", In: "finder.privateKey",
			What: "what only begins like a private key is taken for one",
			Old:  "lines == 0 || ", New: "",
			Run: "OrdinaryTextIsLeftAlone",
		},
		mutant{
			ID: "one-round", In: "Redactor.redact",
			What: "what a secret hid is left",
			Old:  "range maxRounds", New: "range 1",
			Run: "AnyMixture",
		},
		mutant{
			ID: "escaped-quotes", In: "place.outside",
			What: "an escaped quote ends a JSON string",
			Old:  "p.inString && text[p.at] == '\\\\'", New: "false",
			Run: "Findings",
		},
		mutant{
			ID: "half-a-jwe", In: "jwtLength",
			What: "half of an encrypted token is left",
			Old:  "		parts = 4\n", New: "		parts = 2\n",
			Run: "Findings",
		},
		mutant{
			ID: "groq-keys", In: "shapes",
			What: "keys of Groq are left",
			Old:  `"gsk_"`, New: `"gsk-"`,
			Run: "Findings",
		},
		mutant{
			ID: "github-tokens", In: "shapes",
			What: "fine-grained tokens of GitHub are left",
			Old:  `"github_pat_"`, New: `"github-pat-"`,
			Run: "Findings",
		},
		mutant{
			ID: "own-key-before-a-stop", In: "finder.wholeKey",
			What: "a key of the gateway at the end of a sentence is left",
			Old:  "!f.own(start, end) && (bare == end || !f.own(start, bare))", New: "!f.own(start, end) && bare >= start",
			Run: "Findings",
		},
	)
}
