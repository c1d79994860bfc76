package bedrock

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

var testCredentials = aws.Credentials{
	AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: "session/token==",
}

func signing(c *Config) {
	c.APIKey = nil
	c.Credentials = func() (aws.Credentials, error) { return testCredentials, nil }
}

// signature computes the signature of a request as a server of AWS sees it, by
// the letter of "Create a signed AWS API request" (Signature Version 4).
func signature(r *http.Request, body []byte, region string) string {
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	var headers strings.Builder
	for name := range strings.SplitSeq(list, ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	// Each segment of the path as it was sent is encoded once more.
	path := strings.Split(strings.SplitN(r.RequestURI, "?", 2)[0], "/")
	for i := range path {
		path[i] = escape(path[i])
	}
	canonical := strings.Join([]string{r.Method, strings.Join(path, "/"), "", headers.String(), list, digest(body)}, "\n")
	date := r.Header.Get("X-Amz-Date")
	scope := date[:8] + "/" + region + "/bedrock/aws4_request"
	key := []byte("AWS4" + testCredentials.SecretAccessKey)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	text := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, digest([]byte(canonical))}, "\n")
	return "AWS4-HMAC-SHA256 Credential=" + testCredentials.AccessKeyID + "/" + scope + ", SignedHeaders=" + list +
		", Signature=" + hex.EncodeToString(mac(key, text))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func TestSignatures(t *testing.T) {
	for _, test := range []struct {
		name, prefix, model, path string
		stream                    bool
	}{
		{"a model", "", testModel, "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse", false},
		{"a stream", "", testModel, "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream", true},
		{"an inference profile", "", "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abc", "/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse", false},
		{"behind a path", "/a%2Fb/", "m", "/a%2Fb/model/m/converse", false},
		{"an odd model", "", "a b?c#d%/ü", "/model/a%20b%3Fc%23d%25%2F%C3%BC/converse", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				if r.RequestURI != test.path {
					t.Errorf("path %s, want %s", r.RequestURI, test.path)
				}
				if got, want := r.Header.Get("Authorization"), signature(r, body, "eu-central-1"); got != want {
					t.Errorf("Authorization\n%s, want\n%s", got, want)
				}
				for _, name := range []string{"host", "x-amz-date", "x-amz-security-token", "content-type"} {
					if !strings.Contains(r.Header.Get("Authorization"), name) {
						t.Errorf("%s is not signed", name)
					}
				}
				io.WriteString(w, answer("fine", "end_turn", 1, 1).Body[0])
			}))
			defer server.Close()
			req := request(test.stream)
			req.Model = test.model
			s, err := client(t, server.URL+test.prefix, signing).Invoke(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if o := pt.Read(s); o.Err != nil || o.Text != "fine" {
				t.Errorf("text %q, error %v", o.Text, o.Err)
			}
		})
	}
}

func TestASignatureHoldsForRepeats(t *testing.T) {
	up := pt.NewUpstream(t).Then(pt.Reply{Status: -1, End: pt.Reset}).Always(answer("fine", "end_turn", 1, 1))
	s, err := client(t, up.URL, signing).Invoke(providers.WithBudget(t.Context(), pt.NewBudget(2)), request(false))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first, second := up.Requests()[0], up.Requests()[1]
	if first.Body != second.Body || first.Header.Get("Authorization") != second.Header.Get("Authorization") {
		t.Errorf("%+v, then %+v", first, second)
	}
}

func TestRequestHeaders(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_ENDPOINT_URL"} {
		t.Setenv(name, "from-the-environment")
	}
	up := pt.NewUpstream(t).Always(answer("fine", "end_turn", 1, 1))
	for stream, accept := range map[bool]string{false: "application/json", true: "application/vnd.amazon.eventstream"} {
		s, err := client(t, up.URL).Invoke(t.Context(), request(stream))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		r := up.Requests()[len(up.Requests())-1]
		for name, want := range map[string]string{
			"Authorization": "Bearer " + testKey, "Accept": accept, "Content-Type": "application/json",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if !strings.HasPrefix(r.Header.Get("User-Agent"), "Cadenza/") || r.Header.Get("X-Amz-Date") != "" {
			t.Errorf("headers %v", r.Header)
		}
	}
}

func TestASecretThatIsMissingOrBad(t *testing.T) {
	missing := errors.New("KEY is empty")
	for name, change := range map[string]func(*Config){
		"no key":    func(c *Config) { c.APIKey = func() (string, error) { return "", missing } },
		"a bad key": func(c *Config) { c.APIKey = func() (string, error) { return "a\nb", nil } },
		"no credentials": func(c *Config) {
			signing(c)
			c.Credentials = func() (aws.Credentials, error) { return aws.Credentials{}, missing }
		},
		"bad session token": func(c *Config) {
			signing(c)
			c.Credentials = func() (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b", SessionToken: "c\n"}, nil
			}
		},
	} {
		_, err := client(t, "http://localhost:1", change).Invoke(t.Context(), request(false))
		if e, ok := errors.AsType[*providers.ConnectError](err); !ok || !e.Permanent {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
