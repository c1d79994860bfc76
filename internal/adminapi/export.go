package adminapi

import (
	"bufio"
	"net/http"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/trace"
)

// serveExport answers GET /cadenza/export: all traces and metrics that pass a
// filter, oldest first, as JSON lines.
func serveExport(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, filterParameters...)
	if err != nil {
		return err
	}
	reader, err := q.workspace.openTraces(r.Context())
	if err != nil {
		return err
	}
	defer reader.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	err = q.workspace.exportRunning(r.Context(), reader, q.filter, func(record *trace.Record, metrics []trace.Metrics) error {
		line = appendExported(line[:0], record, metrics)
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

// appendExported appends one line: {"trace":{…},"metrics":[{…}]}. Either member
// may be missing: metrics without a trace have a line of their own.
func appendExported(line []byte, record *trace.Record, metrics []trace.Metrics) []byte {
	line = append(line, '{')
	if record != nil {
		line = record.AppendJSON(append(line, `"trace":`...))
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
	return append(line, "}\n"...)
}
