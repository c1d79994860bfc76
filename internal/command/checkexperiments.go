package command

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// checkExperiments remarks on how many units the metrics of each experiment need, and how
// long that takes, by what the gateway that is asked recorded of their splits.
func (c *check) checkExperiments(asked *gatewayClient) error {
	if c.snapshot == nil || asked == nil {
		return nil
	}
	for i := range c.snapshot.Experiments {
		p := &c.snapshot.Experiments[i]
		if !time.Now().Before(p.End) {
			continue
		}
		t, err := traffic(asked, p)
		if err != nil {
			return err
		}
		_, says := p.Sizes(t)
		for _, message := range says {
			c.remark("experiments/"+p.Name, inspect.Finding{Message: message, Rule: "experiment-size"})
		}
	}
	return nil
}

// checkRollouts remarks on which harm the steps of each rollout see, by what the gateway that
// is asked recorded of their splits.
func (c *check) checkRollouts(asked *gatewayClient) error {
	if c.snapshot == nil || asked == nil {
		return nil
	}
	for i := range c.snapshot.Rollouts {
		p := &c.snapshot.Rollouts[i]
		of := &experiment.Plan{On: p.On, Control: p.Control}
		t, err := traffic(asked, of)
		if err != nil {
			return err
		}
		// The traces of a prompt that an endpoint sends are the endpoint's. Who came to both
		// can't be told, so the busiest counts.
		for _, key := range slices.Sorted(maps.Keys(c.snapshot.Endpoints)) {
			if e := c.snapshot.Endpoints[key]; e.Prompt == nil || kind.Prompt.Folder+"/"+e.Prompt.Key != p.On {
				continue
			}
			of.On = kind.Endpoint.Folder + "/" + key
			sent, err := traffic(asked, of)
			if err != nil {
				return err
			}
			if sent.Units[p.Control] > t.Units[p.Control] {
				t = sent
			}
		}
		if t.Units[p.Control] == 0 {
			says := fmt.Sprintf("which harm its steps see is not known, as no units with %s were recorded in the last %d days", p.Control, adminapi.TrafficDays)
			c.remark(p.On, inspect.Finding{Message: p.Rule + ": " + says, Rule: "rollout-harm"})
			continue
		}
		for j := range p.Stops {
			c.remark(p.On, inspect.Finding{Message: p.Rule + ": " + visibleHarm(p, &p.Stops[j], t), Rule: "rollout-harm"})
		}
	}
	return nil
}

// visibleHarm says which harm the steps of a rollout see of a guard.
func visibleHarm(p *rollout.Plan, s *rollout.Stop, t *experiment.Traffic) string {
	usual := s.Usual(t, p.Control)
	var says []string
	for _, step := range p.Steps {
		if step > rollout.Half {
			continue // it compares nobody
		}
		v := p.Visible(step, s, usual)
		if v.Times == 0 && v.Not == 0 {
			return fmt.Sprintf("which harm in %s its steps see is not known: what is recorded of %s does not say how it varies", s.Name(), p.Control)
		}
		says = append(says, v.Says(s))
	}
	return strings.Join(says, "; ")
}

// traffic asks a gateway for what it recorded of the units of an experiment's split.
func traffic(asked *gatewayClient, p *experiment.Plan) (*experiment.Traffic, error) {
	folder, key, _ := strings.Cut(p.On, "/")
	var stats adminapi.Stats
	if err := asked.get("/cadenza/stats", url.Values{"kind": {kind.InFolder(folder).String()}, "key": {key}, "by": {"arm"}, "units": {"true"}, "since": {fmt.Sprintf("%dd", adminapi.TrafficDays)}}, &stats); err != nil {
		return nil, err
	}
	return adminapi.Traffic(p, stats.Rows, stats.Oldest), nil
}

// remark adds a remark on the file of a definition, such as remoteconfigs/button.
func (c *check) remark(name string, f inspect.Finding) {
	f.File = filepath.Join(c.place.Dir, name)
	for _, file := range c.snapshot.Files {
		if strings.TrimSuffix(file.Path, path.Ext(file.Path)) == name {
			f.File = filepath.Join(c.place.Dir, file.Path)
		}
	}
	c.Remarks = append(c.Remarks, f)
}
