// Command openapi writes the OpenAPI document of all actions to its standard
// output. `make derived` puts it into openapi.json.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apilog"
	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
)

func main() {
	doc, err := generate(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
	if _, err := os.Stdout.Write(doc); err != nil {
		os.Exit(1)
	}
}

// described are the directories of the types of requests and responses, from
// the root of the source tree.
var described = []string{"internal/api", "internal/apilog", "internal/resource", "internal/cloud", "internal/cloud/*"}

// generate returns the document for the program's actions and the source code
// of their types. No type depends on the region.
func generate(root string) ([]byte, error) {
	var dirs []string
	for _, pattern := range described {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, found...)
	}
	comments, err := Describe(dirs...)
	if err != nil {
		return nil, err
	}
	actions := cloud.Actions(catalog.NewRegion("eu-west-2", "localhost"), nil, nil, nil)
	return api.OpenAPI(append(actions, apilog.Actions(nil, nil)...), comments)
}
