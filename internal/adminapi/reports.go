package adminapi

import "net/http"

// maxImport bounds the body of an import, in bytes.
const maxImport = 8 << 20

// Results is the answer of POST /cadenza/reports: one for each report, in order.
type Results struct {
	Results []struct {
		Repeated bool
		Error    *struct{ Message string }
	}
}

// serveReports answers POST /cadenza/reports. It stores reports on units of any age, which
// come as lines of JSON.
func serveReports(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "workspace")
	if err != nil {
		return err
	}
	answer, refused := q.workspace.ImportReports(w, r, maxImport)
	if refused != nil {
		return apiError(refused.Status, "%s", refused.Message)
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(answer)
	return err
}
