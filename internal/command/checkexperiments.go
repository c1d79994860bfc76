package command

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// checkExperiments remarks on how many units the metrics of each experiment need, and how
// long that takes, by what the gateway that is asked recorded of their splits.
func (c *check) checkExperiments(asked *gatewayClient) error {
	if c.snapshot == nil || asked == nil {
		return nil
	}
	for i := range c.snapshot.Experiments {
		p := &c.snapshot.Experiments[i]
		folder, key, _ := strings.Cut(p.On, "/")
		on := kind.InFolder(folder)
		if on == nil || !time.Now().Before(p.End) {
			continue
		}
		file := "experiments/" + p.Name
		for _, f := range c.snapshot.Files {
			if strings.TrimSuffix(f.Path, path.Ext(f.Path)) == file {
				file = f.Path
			}
		}
		var stats adminapi.Stats
		if err := asked.get("/cadenza/stats", url.Values{"kind": {on.String()}, "key": {key}, "by": {"arm"}, "units": {"true"}, "since": {fmt.Sprintf("%dd", adminapi.TrafficDays)}}, &stats); err != nil {
			return err
		}
		_, says := p.Sizes(adminapi.Traffic(p, stats.Rows, stats.Oldest))
		for _, message := range says {
			c.Remarks = append(c.Remarks, inspect.Finding{File: filepath.Join(c.place.Dir, file), Message: message, Rule: "experiment-size"})
		}
	}
	return nil
}
