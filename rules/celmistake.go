package rules

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/operators"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// celTypos are what people write in an expression for what CEL has.
var celTypos = map[string]string{
	"=>": ">=", "=<": "<=", "===": "==", "!==": "!=", "<>": "!=", "~=": "matches(…)", "=~": "matches(…)",
	"=": "==", "&": "&&", "|": "||",
	"and": "&&", "AND": "&&", "or": "||", "OR": "||", "not": "!", "NOT": "!",
}

// celToken finds a text in quotes, a word, a run of the characters of operators, or a
// bracket.
var celToken = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|[=<>!~]+|[&|]+|['"()\[\]{}?:]`)

// celMistake finds the typo that makes an expression unreadable, since the parser's
// own messages speak of its grammar. It returns the typo's offset in bytes and a
// message, or "" if it knows none. For example, in seats => 100 it finds => at 6.
func celMistake(text string) (at int, message string) {
	type bracket struct {
		sign byte
		at   int
	}
	var open []bracket
	for _, token := range celToken.FindAllStringIndex(text, -1) {
		at, word := token[0], text[token[0]:token[1]]
		if right, typo := celTypos[word]; typo {
			return at, "unexpected " + word + ": write " + right
		}
		switch word[0] {
		case '\'', '"':
			if len(word) == 1 {
				return at, "the text that begins here has no closing quote"
			}
		case '(', '[', '{', '?':
			open = append(open, bracket{word[0], at})
		case ')', ']', '}', ':':
			opens := map[byte]byte{')': '(', ']': '[', '}': '{', ':': '?'}[word[0]]
			if word == ":" && (len(open) == 0 || open[len(open)-1].sign == '{') {
				continue // of a map, or misplaced
			}
			if len(open) == 0 || open[len(open)-1].sign != opens {
				return at, "unexpected " + word + ": nothing that it could end is open"
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		last := open[len(open)-1]
		if last.sign == '?' {
			return last.at, "unexpected ?: a choice is written condition ? value : other value"
		}
		return last.at, "what begins here has no end: " + map[byte]string{'(': ")", '[': "]", '{': "}"}[last.sign] + " is missing"
	}
	return 0, ""
}

// syntaxMistakes returns one mistake of an expression that can't be read: those after
// the first are its consequences.
func syntaxMistakes(text string, all []*common.Error) []*common.Error {
	first := *all[0]
	if at, message := celMistake(text); message != "" {
		first.Location, first.Message = common.NewLocation(1, utf8.RuneCountInString(text[:at])), message
	} else {
		first.Message = syntaxMessage(first.Message)
	}
	return []*common.Error{&first}
}

// grammarWords matches the parser's messages; its group is the text that was
// not expected.
var grammarWords = regexp.MustCompile(`(?s)(?:mismatched input|extraneous input|token recognition error at:|no viable alternative at input) '(.*?)'(?: expecting .*)?$`)

// syntaxMessage puts a message of the parser into words for people.
func syntaxMessage(message string) string {
	message = strings.TrimPrefix(message, "Syntax error: ")
	m := grammarWords.FindStringSubmatch(message)
	switch {
	case m == nil:
		return message
	case m[1] == "<EOF>":
		return "the expression ends too early"
	}
	return "unexpected " + shorten(strings.TrimSpace(m[1]))
}

// functionHint returns the end of the message about a function that does not exist.
func functionHint(name string, env *cel.Env) string {
	switch name {
	case "not":
		return ": write !"
	case "len", "length", "count":
		return `: did you mean "size"?`
	case "isset", "defined":
		return `: did you mean "present"?`
	}
	return document.DidYouMean(name, functionNames(env))
}

// overloadMessage puts the message about operands that an operator does not take into
// words for people.
func overloadMessage(message string) string {
	m := overload.FindStringSubmatch(message)
	if m == nil {
		return expectedType.ReplaceAllStringFunc(message, func(s string) string {
			m := expectedType.FindStringSubmatch(s)
			return "expected " + kindWords(m[1]) + ", found " + kindWords(m[2])
		})
	}
	// The type before a point is that of x in x.startsWith(…).
	kinds := strings.Split(strings.Trim(strings.Replace(m[2], ".(", ", ", 1), "()"), ", ")
	has := func(kind string) bool { return slices.Contains(kinds, kind) }
	hint := ""
	switch {
	case m[1] == operators.Modulo && has("double"):
		hint = ": a remainder needs whole numbers, write int(n) % 10"
	case has("double") && has("string"):
		hint = ": a number has no quotes, and string(n) makes text of one"
	case has("timestamp") && has("string"):
		hint = `: write timestamp("2026-01-31T00:00:00Z")`
	case has("double") && has("int"):
		hint = ": a number is a double here, write 10.0 for 10"
	}
	for i, kind := range kinds {
		kinds[i] = kindWords(kind)
	}
	operator := strings.NewReplacer("_", " ", "@", "").Replace(m[1])
	return strings.TrimSpace(operator) + " does not take " + strings.Join(kinds, " and ") + hint
}

// overload takes such a message apart.
var overload = regexp.MustCompile(`^found no matching overload for '(.+)' applied to '(.*)'$`)

// expectedType is the message about one operand.
var expectedType = regexp.MustCompile(`^expected type '(.+)' but found '(.+)'$`)

// kindWords returns a type of CEL in the words of the data model.
func kindWords(kind string) string {
	if words, ok := celKinds[kind]; ok {
		return words
	}
	return kind
}

// celKinds are CEL's types in the words of the data model.
var celKinds = map[string]string{
	"double": "a number", "int": "a whole number", "uint": "a whole number", "string": "text", "bool": "a boolean",
	"timestamp": "a date", "duration": "a duration", "list(string)": "a list",
}
