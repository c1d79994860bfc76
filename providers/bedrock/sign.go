package bedrock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// service is the name that requests to Bedrock are signed for.
const service = "bedrock"

// authorize adds the API key, or a signature. Signed, the request's host, path,
// headers and body must not change. A signature holds
// for some minutes, which outlasts the repeats of a request. It returns what it
// used, which the log must not show.
func (c *Client) authorize(r *http.Request, body []byte) (used [2]string, err error) {
	if c.apiKey != nil {
		key, err := c.apiKey()
		if err != nil {
			return used, err
		}
		if !upstream.ValidHeaderValue(key) {
			return used, errors.New("the API key has a character that a header cannot carry")
		}
		r.Header.Set("Authorization", "Bearer "+key)
		return [2]string{key}, nil
	}
	credentials, err := c.credentials()
	if err != nil {
		return used, err
	}
	if !upstream.ValidHeaderValue(credentials.AccessKeyID) || !upstream.ValidHeaderValue(credentials.SessionToken) {
		return used, errors.New("the credentials have a character that a header cannot carry")
	}
	used = [2]string{credentials.SecretAccessKey, credentials.SessionToken}
	hash := sha256.Sum256(body)
	return used, c.signer.SignHTTP(r.Context(), credentials, r, hex.EncodeToString(hash[:]), service, c.region, time.Now())
}
