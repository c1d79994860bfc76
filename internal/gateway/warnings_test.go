package gateway_test

import (
	"maps"
	"path/filepath"
	"testing"
)

// TestWarningsAreLoggedInFields checks that all warnings have the same message.
func TestWarningsAreLoggedInFields(t *testing.T) {
	t.Parallel()
	files := maps.Clone(workspace)
	files["definitions/remoteconfigs/notes.txt"] = ""
	g := startGateway(t, files, options)
	file := filepath.Join(g.dir, "definitions/remoteconfigs/notes.txt")
	eventually(t, "the warning is logged", g.said(`"msg":"the definitions have a warning","file":"`+file+`","warning":"not read`))
}
