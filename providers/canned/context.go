package canned

// ObeysContext is what the contract of providertest holds.
func (*Provider) ObeysContext() bool { return true }
