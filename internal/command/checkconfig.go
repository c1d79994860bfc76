package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// workspaceConfig is the part of a workspace's configuration that check reads.
type workspaceConfig struct {
	Definitions string                     `json:"definitions"`
	Bundle      json.RawMessage            `json:"definitions_bundle"`
	Providers   map[string]json.RawMessage `json:"providers"`
	Prices      map[string]*price.Price    `json:"prices"`
	PriceFiles  []string                   `json:"price_files"`
	NoShipped   bool                       `json:"no_shipped_prices"`
	Log         string                     `json:"log"`
	Limits      []limitConfig              `json:"limits"`
}

// limitConfig is the part of a limit that check reads.
type limitConfig struct {
	Name   string   `json:"name"`
	Tokens []string `json:"tokens"`
	Money  []string `json:"money"`
	Routes []string `json:"routes"`
}

// ceilings returns the ceilings of tokens and money that hold for calls by any route. It
// leaves out malformed ones, which the gateway refuses with the reason.
func (l limitConfig) ceilings() (list []gateway.BudgetCeiling) {
	if len(l.Routes) > 0 {
		return nil
	}
	add := func(measure limit.Measure, texts []string) {
		for _, text := range texts {
			amount, _, _ := strings.Cut(text, "/")
			if ceiling, err := limit.Measures[measure].Parse(amount); err == nil {
				list = append(list, gateway.BudgetCeiling{
					Limit: l.Name, Measure: measure, Most: float64(ceiling) / float64(limit.Measures[measure].Scale), Text: measure.String() + " " + text,
				})
			}
		}
	}
	add(limit.Tokens, l.Tokens)
	add(limit.Money, l.Money)
	return list
}

// checkConfig checks the definitions of all workspaces of a configuration, with the
// configured providers, prices and limits. It provisions nothing, so it needs no key.
func checkConfig(cmd *cobra.Command, file, adapter, format string, strict bool, kinds definition.Remark, asked *gatewayClient) error {
	workspaces, err := readWorkspaces(file, adapter)
	if err != nil {
		return err
	}
	reports := make(map[string]*check)
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(workspaces)) {
		if asked != nil {
			asked.workspace = name
		}
		c, err := workspaces[name].check(file, strict, kinds, asked)
		if err != nil {
			return fmt.Errorf("workspace %s: %w", name, err)
		}
		reports[name] = c
		if !c.OK {
			failed = append(failed, fmt.Sprintf("workspace %s: %s", name, c.counts()))
		}
	}
	names := slices.Sorted(maps.Keys(reports))
	switch format {
	case "text":
		err = writeReport(cmd, nil, false, func(b *bytes.Buffer, st styles) {
			for i, name := range names {
				if len(names) > 1 {
					if i > 0 {
						b.WriteByte('\n')
					}
					fmt.Fprintf(b, "%sworkspace %s%s\n", st.bold, visible.Line(name), st.reset)
				}
				reports[name].write(b, st)
			}
		})
	case "json":
		err = writeReport(cmd, map[string]any{"ok": len(failed) == 0, "workspaces": reports}, true, nil)
	default: // findings of all workspaces together, by their files
		all := &check{target: file, strict: strict, OK: len(failed) == 0}
		for _, name := range names {
			c := reports[name]
			all.Errors, all.Warnings, all.Remarks = append(all.Errors, c.Errors...), append(all.Warnings, c.Warnings...), append(all.Remarks, c.Remarks...)
		}
		err = checkFormats[format](cmd, all)
	}
	if err == nil && len(failed) > 0 {
		err = errors.New(strings.Join(failed, "; "))
	}
	return err
}

// readWorkspaces reads the workspaces of a configuration, and resolves the paths of
// their definitions.
func readWorkspaces(file, adapter string) (map[string]workspaceConfig, error) {
	text, err := adaptConfig(file, adapter)
	if err != nil {
		return nil, err
	}
	var config struct {
		Apps struct {
			Cadenza struct {
				Workspaces map[string]workspaceConfig `json:"workspaces"`
			} `json:"cadenza"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	workspaces := config.Apps.Cadenza.Workspaces
	if len(workspaces) == 0 {
		return nil, fmt.Errorf("%s has no workspace of Cadenza: its global options need a cadenza block with definitions", file)
	}
	maps.DeleteFunc(workspaces, func(_ string, w workspaceConfig) bool { return w.Bundle != nil })
	if len(workspaces) == 0 {
		return nil, fmt.Errorf("the definitions of %s come as bundles: check the folder that they are built from", file)
	}
	for name, w := range workspaces {
		if w.Definitions == "" {
			return nil, fmt.Errorf("workspace %s: definitions is required: the directory of the workspace's definitions", name)
		}
		if w.Definitions, err = caddy.NewReplacer().ReplaceOrErr(w.Definitions, true, true); err != nil {
			return nil, fmt.Errorf("workspace %s: definitions: %w", name, err)
		}
		w.Definitions = shorter(w.Definitions)
		workspaces[name] = w
	}
	return workspaces, nil
}

// adaptConfig reads a configuration as JSON. Caddy's own LoadConfig does the same, but
// writes lines of log.
func adaptConfig(file, adapter string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	base := strings.ToLower(filepath.Base(file))
	if adapter == "" && (strings.HasPrefix(base, "caddyfile") || strings.HasSuffix(base, ".caddyfile")) && filepath.Ext(base) != ".json" {
		adapter = "caddyfile"
	}
	if adapter == "" {
		if !json.Valid(text) {
			return nil, fmt.Errorf("%s is not JSON: for a Caddyfile of another name, add --adapter caddyfile", file)
		}
		return text, nil
	}
	from := caddyconfig.GetAdapter(adapter)
	if from == nil {
		return nil, fmt.Errorf("there is no adapter %q in this build", adapter)
	}
	adapted, _, err := from.Adapt(text, map[string]any{"filename": file})
	return adapted, err
}

// shorter returns a path below the working directory as a relative path, the form that
// messages about the directory itself have.
func shorter(path string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}

// check checks the workspace's definitions. file is the configuration.
func (w workspaceConfig) check(file string, strict bool, kinds definition.Remark, asked *gatewayClient) (*check, error) {
	limits := make([]string, len(w.Limits))
	for i, l := range w.Limits {
		limits[i] = l.Name
	}
	known, err := definition.ParseConfiguration(w.Providers, limits)
	if err != nil {
		return nil, err
	}
	known.Log, _ = definition.ParseLogPolicy(w.Log)
	c, err := checkPlace(definition.Place{Dir: w.Definitions}, strict, kinds, known)
	if err != nil {
		return nil, err
	}
	c.target = w.Definitions
	if c.snapshot == nil {
		return c, nil
	}
	prices, err := w.prices()
	if err != nil {
		return nil, err
	}
	for _, message := range c.snapshot.CheckPrices(slices.Collect(maps.Keys(w.Prices)), known.Providers, prices.Check) {
		c.Warnings = append(c.Warnings, inspect.Finding{File: file, Message: message, Rule: "price"})
	}
	var ceilings []gateway.BudgetCeiling
	for _, l := range w.Limits {
		ceilings = append(ceilings, l.ceilings()...)
	}
	c.Warnings = append(c.Warnings, inspect.Findings(gateway.CheckBudgets(c.snapshot, ceilings, prices, known.Providers, time.Now()))...)
	if err := c.checkModels(known.Providers, prices, asked); err != nil {
		return nil, err
	}
	if err := c.checkExperiments(asked); err != nil {
		return nil, err
	}
	return c, c.checkRollouts(asked)
}

// prices returns the prices that the workspace counts with.
func (w workspaceConfig) prices() (*price.Table, error) {
	all, err := price.ReadFiles(w.PriceFiles, func(file string) (string, error) {
		return caddy.NewReplacer().ReplaceOrErr(file, true, true)
	})
	if err != nil {
		return nil, err
	}
	maps.Copy(all, w.Prices)
	table := price.NewTable(all)
	if w.NoShipped {
		table = table.WithoutShipped()
	}
	return table, nil
}
