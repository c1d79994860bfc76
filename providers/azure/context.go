package azure

// ObeysContext is what the contract of providertest holds.
func (*Module) ObeysContext() bool { return true }
