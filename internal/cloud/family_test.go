package cloud

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

const page = "../../docs/adding-a-family.md"

// The files that docs/adding-a-family.md lists are there, each once, and have the
// example in them.
func TestFilesOfAFamily(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| `([^`]+)` \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 10 {
		t.Fatalf("the page lists %d files", len(rows))
	}
	seen := map[string]bool{}
	for _, row := range rows {
		file, want := row[1], row[2]
		if seen[file] {
			t.Errorf("%s is listed twice", file)
		}
		seen[file] = true
		has, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if !strings.Contains(strings.ToLower(string(has)), strings.ToLower(want)) {
			t.Errorf("%s has nothing of %q", file, want)
		}
	}
}

// Beacon is the resource of a toy family, written by what docs/adding-a-family.md
// says of a room.
type Beacon struct {
	BeaconId beaconID    // The ID of the beacon.
	Color    string      // The color of its light.
	State    beaconState // The state of the beacon.
	Tags     []api.Tag   // The tags of the beacon.
}

type (
	beaconID    string
	beaconState string
)

func (beaconID) Form() resource.Form {
	return resource.Form{Prefix: "beacon-", Length: 8, Alphabet: resource.Hexadecimal}
}

const (
	beaconCreated lifecycle.Event[beaconState] = "created"
	beaconLit     lifecycle.Event[beaconState] = "lit"
	beaconDeleted lifecycle.Event[beaconState] = "deleted"
)

var beacons = &resource.Kind[Beacon, beaconID]{
	Name: "Beacon", Tag: "beacon", NotFound: apierror.ObjectNotFound,
	Quota: &resource.Quota{Name: "beacon_limit", Code: apierror.TooManyNets},
	Life: lifecycle.Table[beaconState]{
		"":     {beaconCreated: "dark"},
		"dark": {beaconLit: "lit", beaconDeleted: ""},
		"lit":  {beaconDeleted: ""},
	},
}

func beaconActions() []api.Action {
	r := api.NewResource(beacons, api.Plain[Beacon])
	return []api.Action{
		api.Create(r, func(_ *resource.Tx, req *CreateBeaconRequest) (*Beacon, error) { return &Beacon{Color: req.Color}, nil }),
		api.Read[ReadBeaconsRequest](r),
		api.Update(r, func(tx *resource.Tx, b *Beacon, _ *UpdateBeaconRequest) error {
			return resource.Transition(tx, beacons, b, beaconLit)
		}),
		api.Delete[DeleteBeaconRequest](r),
	}
}

// The requests of the toy family.
type (
	CreateBeaconRequest struct {
		Color string `api:"required"` // The color of the light.
	}
	ReadBeaconsRequest struct {
		Filters *FiltersBeacon // Which beacons to list.
		api.Page
	}
	FiltersBeacon struct {
		BeaconIds []beaconID    // The IDs of the beacons.
		Colors    []string      // The colors of the beacons.
		States    []beaconState // The states of the beacons.
		api.TagFilters
	}
	UpdateBeaconRequest struct {
		BeaconId beaconID `api:"required"` // The ID of the beacon to light.
	}
	DeleteBeaconRequest struct {
		BeaconId beaconID `api:"required"` // The ID of the beacon to delete.
	}
)

// A family that says what the page asks for, and nothing more, has all that
// families have.
func TestToyFamily(t *testing.T) {
	t.Parallel()
	db := resource.Open(resource.Options{
		Kinds: []resource.Any{beacons}, Limits: map[string]int{"beacon_limit": 2}, Now: time.Now, Rand: rand.NewChaCha8([32]byte{}),
	})
	t.Cleanup(func() { db.Close() })
	actions := api.New(append(beaconActions(), tagActions()...), api.NewPager([]byte("a key of the length it needs: 32")))
	do := func(account, action, request string) (map[string]any, error) {
		t.Helper()
		a, err := actions.Find(action, api.Latest)
		if err != nil {
			t.Fatal(err)
		}
		call, err := actions.Bind(a, api.Latest, []byte(request))
		if err != nil {
			return nil, err
		}
		response, err := call.Run(context.Background(), db, resource.Caller{Account: account})
		if err != nil || call.DryRun {
			return nil, err
		}
		var shown map[string]any
		if err := json.Unmarshal(api.Append(nil, response, api.Latest), &shown); err != nil {
			t.Fatal(err)
		}
		return shown, nil
	}
	must := func(action, request string) map[string]any {
		t.Helper()
		shown, err := do("alice", action, request)
		if err != nil {
			t.Fatalf("%s %s: %v", action, request, err)
		}
		return shown
	}
	refused := func(account, action, request string, code apierror.Code) {
		t.Helper()
		if _, err := do(account, action, request); !code.Is(err) {
			t.Errorf("%s %s of %s: %v, want %v", action, request, account, err, code)
		}
	}
	made := must("CreateBeacon", `{"Color": "green"}`)["Beacon"].(map[string]any)
	id := made["BeaconId"].(string)
	if want := map[string]any{"BeaconId": id, "Color": "green", "State": "dark", "Tags": []any{}}; !reflect.DeepEqual(made, want) {
		t.Errorf("a beacon is created as %v, want %v", made, want)
	}
	must("CreateTags", `{"ResourceIds": ["`+id+`"], "Tags": [{"Key": "sea", "Value": "north"}]}`)
	must("UpdateBeacon", `{"BeaconId": "`+id+`"}`)
	refused("alice", "UpdateBeacon", `{"BeaconId": "`+id+`"}`, apierror.InvalidState)
	for filters, want := range map[string]int{
		`{"Colors": ["green"]}`: 1, `{"Colors": ["red"]}`: 0, `{"States": ["lit"]}`: 1, `{"BeaconIds": ["` + id + `"]}`: 1,
		`{"TagKeys": ["sea"]}`: 1, `{"Tags": ["sea=south"]}`: 0,
	} {
		if got := must("ReadBeacons", `{"Filters": `+filters+`}`)["Beacons"].([]any); len(got) != want {
			t.Errorf("%s selects %v, want %d", filters, got, want)
		}
	}
	must("CreateBeacon", `{"Color": "red"}`)
	refused("alice", "CreateBeacon", `{"Color": "blue"}`, apierror.TooManyNets)
	refused("alice", "CreateBeacon", `{}`, apierror.MissingParameter)
	refused("alice", "CreateBeacon", `{"Color": 1}`, apierror.InvalidType)
	refused("bob", "DeleteBeacon", `{"BeaconId": "`+id+`"}`, apierror.ObjectNotFound)
	must("DeleteBeacon", `{"BeaconId": "`+id+`"}`)
	refused("alice", "DeleteBeacon", `{"BeaconId": "`+id+`"}`, apierror.ObjectNotFound)
}
