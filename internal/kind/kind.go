// Package kind describes the kinds of definitions. Each is one value, by which every
// layer keys its table: what the definitions of the kind are made of, how they answer,
// and how answers are explained and compared.
package kind

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Kind is a kind of definition.
type Kind struct {
	// Trace is the kind of the traces of its answers, which has its name.
	Trace trace.Kind
	// Folder is the name of the folder of its definitions in a workspace, and of the
	// member for its keys in requests and answers. It begins what traces call its
	// definitions, as in remoteconfigs/limits.
	Folder string
	// Noun is what messages call a definition, and with an s several of them.
	Noun string
	// Variants reports whether its tables pick variants of messages, which take
	// variables. Those of another kind pick values.
	Variants bool
}

// The kinds.
var (
	Prompt       = &Kind{Trace: trace.KindPrompt, Folder: "prompts", Noun: "prompt", Variants: true}
	Endpoint     = &Kind{Trace: trace.KindEndpoint, Folder: "endpoints", Noun: "endpoint", Variants: true}
	RemoteConfig = &Kind{Trace: trace.KindRemoteConfig, Folder: "remoteconfigs", Noun: "remote configuration"}
)

// Experiment is the kind of the files of experiments. It is none of All: an experiment
// answers nothing, so that no trace, version or answer is of one, and what layers do with
// the kinds of All has no meaning for it. It has a folder, and reads the tables of the others.
var Experiment = &Kind{Folder: "experiments", Noun: "experiment"}

// All lists the kinds in the order in which tools show them.
var All = []*Kind{Prompt, Endpoint, RemoteConfig}

// Referring lists the kinds so that each comes after those that its definitions refer
// to.
var Referring = []*Kind{RemoteConfig, Prompt, Endpoint}

// String returns the kind's name, as it is stored and shown.
func (k *Kind) String() string {
	if k == Experiment {
		return k.Noun
	}
	return k.Trace.String()
}

// Named returns the kind with a name, or nil.
func Named(name string) *Kind {
	return first(func(k *Kind) bool { return k.String() == name })
}

// InFolder returns the kind of the files in a folder of a workspace, which may be
// Experiment, and nil for another folder.
func InFolder(folder string) *Kind {
	if folder == Experiment.Folder {
		return Experiment
	}
	return first(func(k *Kind) bool { return k.Folder == folder })
}

// Of returns the kind of the definitions that make traces of a kind. It is nil for the
// traces of metrics and for decisions, which no definition makes.
func Of(traces trace.Kind) *Kind {
	return first(func(k *Kind) bool { return k.Trace == traces })
}

func first(matches func(*Kind) bool) *Kind {
	if i := slices.IndexFunc(All, matches); i >= 0 {
		return All[i]
	}
	return nil
}

// Names returns the names of all kinds, and Folders those of their folders and of the
// folder of experiments.
func Names() []string { return each((*Kind).String) }

// Folders returns the names of the folders that a workspace has.
func Folders() []string {
	return append(each(func(k *Kind) string { return k.Folder }), Experiment.Folder)
}

func each(text func(*Kind) string) []string {
	list := make([]string, len(All))
	for i, k := range All {
		list[i] = text(k)
	}
	return list
}
