package adminapi

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// serveExport answers GET /cadenza/export: all traces and metrics that pass a
// filter, oldest first, as JSON lines. With ?verify=true each trace has the verdict on
// its seal.
func serveExport(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	verify, err := q.flag("verify")
	if err != nil {
		return err
	}
	q.workspace.audited(r.Context(), AuditExport, strings.TrimSpace("traces "+q.workspace.hashedQuery(q.values)), "", "")
	w.Header().Set("Content-Type", wire.LinesType)
	w.Header().Set("Content-Disposition", `attachment; filename="traces.jsonl"`)
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	err = q.workspace.exportRunning(r.Context(), reader, q.filter, func(record *trace.Record, metrics []trace.Metrics) error {
		var verification *trace.Verification
		if verify {
			verification = q.workspace.verify(record)
		}
		if line, err = appendExported(line[:0], record, verification, metrics); err != nil {
			return err
		}
		_, err := out.Write(line)
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		q.workspace.Logger.Error("export broke off", zap.Error(err))
		// The status and some lines are sent already: only a cut connection
		// shows that lines are missing.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// appendExported appends one line: {"trace":{…},"verification":{…},"metrics":[{…}]}. Each
// member may be missing, because metrics without a trace have a line of their own.
func appendExported(line []byte, record *trace.Record, verification *trace.Verification, metrics []trace.Metrics) ([]byte, error) {
	line = append(line, '{')
	if record != nil {
		line = record.AppendJSON(append(line, `"trace":`...))
	}
	if verification != nil {
		text, err := json.Marshal(verification)
		if err != nil {
			return nil, err
		}
		line = append(append(line, `,"verification":`...), text...)
	}
	for i := range metrics {
		switch {
		case i > 0:
			line = append(line, ',')
		case record != nil:
			line = append(line, `,"metrics":[`...)
		default:
			line = append(line, `"metrics":[`...)
		}
		line = metrics[i].AppendJSON(line)
	}
	if len(metrics) > 0 {
		line = append(line, ']')
	}
	return append(line, "}\n"...), nil
}
