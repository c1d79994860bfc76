package invoke

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; -update writes it (-want +got):\n%s", path, diff)
	}
}

func mark(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}

func TestTables(t *testing.T) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "class\tsame target\tnext target\tcounts\tcools\tcode\tmeaning")
	for _, r := range Classes() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Class, mark(r.Retry), mark(r.Next), mark(r.Counts), mark(r.Cools), r.Code.Name, r.Meaning)
	}
	fmt.Fprintln(w, "\nclass\tkind\tstatus\tcode or type\tphrase")
	for _, r := range Rules() {
		kind, status := "any", "any"
		if r.Kind != nil {
			kind = r.Kind.String()
		}
		if len(r.Status) > 0 {
			status = strings.Trim(fmt.Sprint(r.Status), "[]")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Class, kind, status, strings.Join(r.Words, " "), strings.Join(r.Phrase, "; "))
	}
	w.Flush()
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n")+"\n")
	}
	golden(t, "classes.txt", strings.Join(lines, ""))
}

func TestEveryClassIsComplete(t *testing.T) {
	seen := map[Class]bool{}
	for _, r := range Classes() {
		if seen[r.Class] || r.Meaning == "" || messages[r.Code] == "" {
			t.Errorf("row %+v", r)
		}
		seen[r.Class] = true
	}
	for _, r := range Rules() {
		if !seen[r.Class] {
			t.Errorf("a rule names the class %s, which is not in the table", r.Class)
		}
		for _, word := range append(append([]string{}, r.Words...), r.Phrase...) {
			if word != strings.ToLower(word) {
				t.Errorf("%q would never match: it is not in lower case", word)
			}
		}
	}
}

func TestClassify(t *testing.T) {
	answer := func(status int, typ, code, message string) error {
		return &providers.Error{Status: status, Type: typ, Code: code, Message: message}
	}
	inside := func(typ, code, message string) error {
		return &providers.Error{Kind: providers.Reported, Status: 200, Type: typ, Code: code, Message: message}
	}
	for _, test := range []struct {
		err  error
		want Class
	}{
		{answer(429, "tokens", "rate_limit_exceeded", "Rate limit reached"), RateLimit},
		{answer(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"), Quota},
		{answer(429, "", "", "You exceeded your current quota, please check your plan"), Quota},
		{answer(429, "RESOURCE_EXHAUSTED", "429", "You exceeded your current quota"), RateLimit},
		{answer(400, "invalid_request_error", "", "Your credit balance is too low"), Quota},
		{answer(402, "", "", ""), Quota},
		{answer(101, "", "", ""), Unknown},
		{answer(401, "invalid_request_error", "invalid_api_key", ""), Credential},
		{answer(403, "", "", ""), Credential},
		{answer(400, "INVALID_ARGUMENT", "400", "API key not valid. Please pass a valid API key."), Credential},
		{answer(403, "request_forbidden", "unsupported_country_region_territory", ""), Model},
		{answer(404, "", "DeploymentNotFound", ""), Model},
		{answer(404, "invalid_request_error", "model_not_found", ""), Model},
		{answer(400, "", "model_decommissioned", ""), Model},
		{answer(410, "", "", ""), Model},
		{answer(400, "invalid_request_error", "context_length_exceeded", ""), ContextLength},
		{answer(400, "invalid_request_error", "", "This model's maximum context length is 8192 tokens."), ContextLength},
		{answer(413, "request_too_large", "", ""), ContextLength},
		{answer(400, "", "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), ContextLength},
		{answer(400, "", "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 204698"), ContextLength},
		{answer(400, "INVALID_ARGUMENT", "400", "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."), ContextLength},
		{answer(400, "", "invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."), Quota},
		{answer(429, "rate_limit_error", "enforced_spend_limit_reached", ""), Quota},
		{answer(429, "", "rate_limit_error", ""), RateLimit},
		{answer(400, "INVALID_ARGUMENT", "400", "API Key not found. Please pass a valid API key."), Credential},
		{answer(400, "FAILED_PRECONDITION", "400", "User location is not supported for the API use."), Model},
		{answer(404, "", "not_found_error", "model: claude-x"), Model},
		{answer(400, "", "invalid_request_error", "`temperature` is deprecated for this model."), Rejected},
		{inside("", "overloaded_error", "Overloaded"), Transient},
		{inside("", "rate_limit_error", ""), RateLimit},
		{inside("UNAVAILABLE", "503", "This model is currently experiencing high demand."), Transient},
		{inside("RESOURCE_EXHAUSTED", "429", "You exceeded your current quota"), RateLimit},
		{answer(400, "", "content_policy_violation", ""), ContentPolicy},
		{answer(400, "", "content_filter", ""), ContentPolicy},
		{answer(429, "", "ThrottlingException", "Too many tokens, please wait before trying again."), RateLimit},
		{inside("", "throttlingException", "Too many tokens, please wait before trying again."), RateLimit},
		{inside("", "validationException", "Input is too long for requested model."), ContextLength},
		{inside("", "validationException", "Malformed input request"), Rejected},
		{inside("", "modelStreamErrorException", "It broke."), Transient},
		{answer(424, "", "ModelErrorException", "It broke."), Transient},
		{answer(400, "", "ServiceQuotaExceededException", "Your request exceeds the service quota"), Quota},
		{answer(403, "", "ExpiredTokenException", "The security token included in the request is expired"), Credential},
		{answer(400, "invalid_request_error", "", "Unknown parameter"), Rejected},
		{answer(405, "", "", ""), Rejected},
		{answer(415, "", "", ""), Rejected},
		{answer(422, "", "", ""), Rejected},
		{answer(408, "", "", ""), Transient},
		{answer(409, "", "", ""), Transient},
		{answer(425, "", "", ""), Transient},
		{answer(500, "", "", ""), Transient},
		{answer(503, "", "", ""), Transient},
		{answer(522, "", "", ""), Transient},
		{answer(529, "overloaded_error", "", ""), Transient},
		{answer(501, "", "", ""), Unknown},
		{answer(302, "", "", ""), Unknown},
		{answer(204, "", "", ""), Unknown},
		{inside("server_error", "", ""), Transient},
		{inside("", "", "no words for it"), Transient},
		{inside("", "500", ""), Transient},
		{inside("", "429", ""), RateLimit},
		{inside("", "401", ""), Credential},
		{inside("BadRequestError", "400", "maximum context length"), ContextLength},
		{inside("insufficient_quota", "", ""), Quota},
		{inside("invalid_request_error", "", ""), Rejected},
		{&providers.Error{Kind: providers.Truncated, Status: 200}, InvalidAnswer},
		{&providers.Error{Kind: providers.Invalid, Status: 200}, InvalidAnswer},
		{&providers.Error{Kind: providers.Truncated, Status: 200, Err: providers.ErrNoRoom}, NoRoom},
		{fmt.Errorf("wrapped: %w", providers.ErrNoRoom), NoRoom},
		{&providers.Error{Kind: providers.Refused, Status: 200}, ContentPolicy},
		{&providers.ConnectError{Err: errors.New("x")}, Connect},
		{fmt.Errorf("wrapped: %w", &providers.ConnectError{Err: errors.New("x")}), Connect},
		{context.DeadlineExceeded, Slow},
		{errors.New("what is this"), Unknown},
	} {
		if got := Classify(test.err); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(429, uint8(0), "insufficient_quota", "", "text")
	f.Add(200, uint8(1), "500", "", "")
	f.Add(-1, uint8(9), "-500", "x", "maximum context length")
	f.Fuzz(func(t *testing.T, status int, kind uint8, code, typ, text string) {
		c := Classify(&providers.Error{Kind: providers.ErrorKind(kind), Status: status, Code: code, Type: typ, Message: text})
		if c.row().Class != c || c == ClientGone || c == Deadline {
			t.Errorf("class %s", c)
		}
	})
}
