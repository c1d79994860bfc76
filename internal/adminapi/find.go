package adminapi

import (
	"net/http"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Found is the answer of GET /cadenza/find.
type Found struct {
	Searched []string `json:"searched"` // what the id was looked for as
	Found    []Match  `json:"found"`
	More     bool     `json:"more"` // there are others
}

// Match is something that an id may mean.
type Match struct {
	What string `json:"what"` // trace, decision, conversation, chain, request
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // of a trace: kind and key
}

// serveFind answers GET /cadenza/find?id=…: the traces and decisions whose ids begin so, also
// the trace whose id is within that of an answer, or else the conversation, chain or request
// id in a trace's metadata or a report.
func serveFind(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	workspace := q.workspace
	id := strings.TrimSpace(q.values.Get("id"))
	if id == "" {
		return apiError(http.StatusBadRequest, "id is missing: that of a trace, decision, conversation, chain or request")
	}
	answer := Found{Searched: []string{}, Found: []Match{}}
	if first, last, ok := parsePrefix(withinAnswerID(id)); ok {
		for _, what := range []string{"trace", "decision"} {
			answer.Searched = append(answer.Searched, what)
			found, more, err := workspace.idsBetween(r.Context(), what == "decision", first, last)
			if err != nil {
				return err
			}
			for _, c := range found[:min(len(found), maxCandidates)] {
				answer.Found = append(answer.Found, Match{what, c.id.String(), c.name})
			}
			answer.More = answer.More || more || len(found) > maxCandidates
		}
	}
	if len(answer.Found) > 0 {
		return writeJSON(w, answer)
	}
	for _, named := range []struct {
		what   string
		filter trace.Filter
	}{
		{"conversation", trace.Filter{ConversationID: id}},
		{"chain", trace.Filter{ChainID: id}},
		{"request", trace.Filter{Metadata: []trace.MetadataMatch{metadataMatch("request_id", id)}}},
	} {
		answer.Searched = append(answer.Searched, named.what)
		named.filter.Workspace = workspace.Name
		page, err := reader.Traces(r.Context(), named.filter, trace.ID{}, 1, listBudget)
		if err != nil {
			return workspace.unreadable(err)
		}
		if len(page.Records) > 0 {
			answer.Found = append(answer.Found, Match{What: named.what, ID: id})
		}
	}
	return writeJSON(w, answer)
}
