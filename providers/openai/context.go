package openai

// ObeysContext is what the contract of providertest holds.
func (*Client) ObeysContext() bool { return true }
