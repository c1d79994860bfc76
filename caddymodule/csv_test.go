package caddymodule_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestMatrixInCSV serves a matrix in a CSV file, follows its edits, keeps the last good
// set after a mistake in it, and returns the file with a revision.
func TestMatrixInCSV(t *testing.T) {
	const options = `
	workspace one {
		definitions {dir}/one
		store sqlite {dir}/one.db
		api_key app {env.CADENZA_TEST_KEY}
	}`
	const first = "plan,value\npro,{ rpm: 2 }\n"
	g := startGateway(t, map[string]string{
		"one/context.yaml":              "fields: { plan: { type: string, values: [free, pro] } }\n",
		"one/remoteconfigs/limits.yaml": "type: object\ndefault: { rpm: 1 }\nmatrix: limits.csv\n",
		"one/remoteconfigs/limits.csv":  first,
	}, options)
	address := adminOf(t, g, options)
	serves := func(want string) bool {
		a := g.post("/v1/remoteconfigs", `{"keys":["limits"],"context":{"plan":"pro"}}`)
		return a.status == http.StatusOK && strings.Contains(string(a.body), want)
	}
	if !serves(`"rpm":2`) {
		t.Fatal("the table is not served")
	}
	revisionsStored(t, address, "one", 1)
	g.write("one/remoteconfigs/limits.csv", "plan;value\r\nfree;{ rpm: 3 }\r\npro;{ rpm: 4 }\r\n")
	eventually(t, "the edited table is served", func() bool { return serves(`"rpm":4`) })
	revisionsStored(t, address, "one", 2)
	g.write("one/remoteconfigs/limits.csv", "plan,value\nprro,{ rpm: 5 }\n")
	place := filepath.Join(g.dir, "one", "remoteconfigs", "limits.csv")
	eventually(t, "the mistake is shown", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/definitions?workspace=one", "")
		return strings.Contains(fmt.Sprint(answer), "column:1 file:"+place+" line:2 ")
	})
	if !serves(`"rpm":4`) {
		t.Error("the last good set is not served")
	}
	g.write("one/remoteconfigs/limits.csv", first)
	eventually(t, "the mended table is served", func() bool { return serves(`"rpm":2`) })
	eventually(t, "the file is stored with the revision", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/revisions?workspace=one", "")
		list, _ := answer["revisions"].([]any)
		if len(list) != 2 {
			return false
		}
		_, answer = callAdmin(t, "GET", address, "/cadenza/revisions/"+list[0].(map[string]any)["revision"].(string)+"?workspace=one", "")
		files, _ := answer["files"].([]any)
		return len(files) == 3 && files[2].(map[string]any)["path"] == "remoteconfigs/limits.csv" && files[2].(map[string]any)["content"] == first
	})
}
