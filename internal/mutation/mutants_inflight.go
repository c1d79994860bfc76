package main

func init() {
	add("internal/inflight",
		mutant{
			ID: "workspace-uncounted", In: "Calls.Enter",
			What: "calls don't count for their workspace",
			Old:  "named(&c.workspaces, workspace).enter(key)", New: "",
		},
		mutant{
			ID: "idle-keys-stay", In: "places.leave",
			What: "what is idle keeps its entry",
			Old:  "p.keys[key] == 0", New: "p.keys[key] < 0",
		},
		mutant{
			ID: "full-without-sharing", In: "places.refuses",
			What: "a key that has less than its share is refused at a ceiling as long as another fills it",
			Old:  "p.pressed = time.Now()", New: "_ = p",
		},
		mutant{
			ID: "one-alone-shares", In: "strain.judge",
			What: "a key that is alone at an overloaded host is held back",
			Old:  "case active < 2:", New: "case active < 1:",
		},
		mutant{
			ID: "answered-keys-share", In: "strain.refuses",
			What: "a key whose calls are answered is held back at a host that others overload",
			Old:  " || !s.strained[key]", New: "",
		},
		mutant{
			ID: "outage-shares", In: "strain.judge",
			What: "keys are held back at a host that answers nothing",
			Old:  "if bears > 0 {", New: "if true {",
		},
		mutant{
			ID: "sharing-that-does-not-help", In: "strain.judge",
			What: "keys are held back although the host fails as before",
			Old:  "case failed > starving && s.places == s.least:", New: "case false:",
		},
		mutant{
			ID: "sharing-stays", In: "strain.judge",
			What: "the places stay shared though no key needs more of them",
			Old:  "case !s.refused:", New: "case false:",
		},
		mutant{
			ID: "longest-idle", In: "connection.moveTo",
			What: "the connection that idles shortest is closed for a new one",
			Old:  "c.before = to.last; c.before == nil", New: "c.before = to.last; true",
		},
		mutant{
			ID: "idle-makes-room", In: "Connections.move",
			What: "a request that waits for a place does not see that a connection idles",
			Old:  "c.changed()", New: "",
		},
		mutant{
			ID: "closed-makes-room", In: "Connections.remove",
			What: "a request that waits for a place does not see that a connection is closed",
			Old:  "c.changed()", New: "",
		},
		mutant{
			ID: "silent-too-soon", In: "Connections.evict",
			What: "a connection is closed before its first byte had time to arrive",
			Old:  "time.Since(victim.since) < silence", New: "false",
		},
	)
	add("internal/invoke",
		mutant{
			ID: "host-place-leaks", In: "Engine.Invoke",
			What: "the place of the target that answered is never given back",
			Old:  "defer k.leaveHosts() ", New: "",
			Run: "TestFullHostIsPassedOver",
		},
		mutant{
			ID: "host-kept", In: "lane.run",
			What: "a call keeps its place at the host of a target that failed",
			Old:  "l.leaveHost(&l.usable[i])", New: "",
			Run: "TestHostIsLeftWithItsTarget",
		},
		mutant{
			ID: "hedge-without-a-place", In: "call.hedgeTarget",
			What: "a hedge does not count at its host",
			Old:  " || !k.enterHost(u)", New: "",
			Run: "TestHedgeTakesAPlaceAtItsHost",
		},
		mutant{
			ID: "full-host-as-last-resort", In: "call.soonest",
			What: "the target that would be back soonest is tried at a full host",
			Old:  " || !k.enterHost(u)", New: "",
			Run: "TestEjectedTargetIsTriedOnlyWithAPlace",
		},
		mutant{
			ID: "light-key-needs-the-bucket", In: "attempt.permitRetry",
			What: "a light key's retries fail because a heavy one has emptied the bucket",
			Old:  "permitRetry(last, light)", New: "permitRetry(last, light && false)",
			Run: "TestRetriesByStanding",
		},
		mutant{
			ID: "heavy-key-retries", In: "attempt.permitRetry",
			What: "a key that has its share of an overloaded host goes on retrying there",
			Old:  "return !full && ", New: "return (!full || true) && ",
			Run: "TestRetriesByStanding",
		},
		mutant{
			ID: "overloaded-is-unavailable", In: "call.nothingTried",
			What: "a full host is reported as a provider that can't be reached",
			Old:  "case full:", New: "case false && full:",
			Run: "TestOverloadedWhereNoHostHasAPlace",
		},
	)
	add("caddymodule",
		mutant{
			ID: "connections-unguarded", In: "appModule.Provision",
			What: "callers' connections have no ceiling",
			Old:  "return m.app.guard(server)", New: "_ = server",
			Run: "TestCallersConnectionsAreBounded",
		},
		mutant{
			ID: "workspace-ceilings-dropped", In: "App.provisionInFlight",
			What: "a workspace's own ceilings are left at their defaults",
			Old:  "limits.Workspace, limits.Key, limits.Host = w.InFlight.Workspace, w.InFlight.Key, w.InFlight.Host", New: "",
			Run: "TestCeilingsAreProvisioned",
		},
	)
	add("internal/gateway",
		mutant{
			ID: "host-ceiling-not-passed-on", In: "call.newInvocation",
			What: "the ceiling of a host is not in the call of the model",
			Old:  "InFlight:  &c.gateway.process.calls,", New: "",
			Run: "TestFallbackTakesOverFromAFullHost",
		},
		mutant{
			ID: "target-without-a-host", In: "Workspace.makeTargets",
			What: "a call does not say which host it goes to",
			Old:  " Host: w.hosts[t.Provider],", New: "",
			Run: "TestFallbackTakesOverFromAFullHost",
		},
		mutant{
			ID: "call-stays-in-flight", In: "call.release",
			What: "a call counts for ever",
			Old:  "c.leave()", New: "",
			Run: "TestCeilingsOfCallsInFlight",
		},
		mutant{
			ID: "remembered-answer-refused", In: "call.enterCall",
			What: "an answer that is remembered is refused at a ceiling",
			Old:  "c.workspace.Memory.answers.Remembers(question)", New: "false",
			Run: "TestWhatAsksNoProviderIsNoCall",
		},
		mutant{
			ID: "refused-despite-a-key", In: "Gateway.turnedAway",
			What: "a call that its Idempotency-Key answers is refused",
			Old:  " || len(r.Header[wire.HeaderIdempotencyKey]) > 0", New: "",
			Run: "TestFullGatewayAnswersWhatNeedsNoCall",
		},
		mutant{
			ID: "refused-despite-a-cache", In: "Gateway.turnedAway",
			What: "a call that a cache answers is refused",
			Old:  " || w.Source.Snapshot().Remembers", New: "",
			Run: "TestFullGatewayAnswersWhatNeedsNoCall",
		},
		mutant{
			ID: "refused-after-the-body", In: "Gateway.answer",
			What: "a call is refused only when its body has come",
			Old:  "g.turnedAway(r, to, key, info)", New: "(*wire.Error)(nil)",
			Run: "TestRefusedCallsAreToldBeforeTheirBodies",
		},
		mutant{
			ID: "slowed-without-bound", In: "Gateway.slow",
			What: "all refused callers wait",
			Old:  "slowed.Add(1) > g.process.maxSlowed", New: "slowed.Add(1) < 0",
			Run: "TestSlowedCallersAreBounded",
		},
		mutant{
			ID: "slowed-although-gone", In: "Gateway.slow",
			What: "the wait goes on for a caller that left",
			Old:  "	case <-caller.Done():\n", New: "",
			Run: "TestSlowedCallersAreBounded",
		},
		mutant{
			ID: "slowed-at-the-exit", In: "Gateway.slow",
			What: "the wait holds the exit up",
			Old:  "	case <-g.exiting.Done():\n", New: "",
			Run: "TestSlowedCallersAreBounded",
		},
		mutant{
			ID: "refused-at-once", In: "Gateway.writeError",
			What: "a caller that is refused comes back at once",
			Old:  "		g.slow(r.Context())\n", New: "",
			Run: "TestRefusedCallersAreSlowed",
		},
	)
	add("providers/upstream",
		mutant{
			ID: "host-without-its-port", In: "hostOf",
			What: "two services at one host's ports count as one",
			Old:  "port := u.Port()", New: "port := \"\"",
			Run: "TestHost$",
		},
	)
}
