package gateway_test

import (
	"maps"
	"path/filepath"
	"testing"
)

// TestWarningsAreLoggedInFields: the message is the same for all of them.
func TestWarningsAreLoggedInFields(t *testing.T) {
	t.Parallel()
	files := maps.Clone(workspace)
	files["definitions/remoteconfigs/notes.txt"] = ""
	g := startGateway(t, files, options)
	file := filepath.Join(g.dir, "definitions/remoteconfigs/notes.txt")
	eventually(t, "the warning is logged", g.said(`"msg":"the definitions have a warning","file":"`+file+`","warning":"not read`))
}
