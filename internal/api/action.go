// Package api turns plain functions into actions. A family declares its
// requests and its rules; this package decodes strictly, checks presence and
// values, selects by filters, splits lists into pages, and gives each version
// of the API its form.
//
// A few constructors cover the contract: [Create], [Read], [Update] and [Delete]
// for what is the same of every resource, and [Do] for verbs of their own, or
// [Command] if their answer holds nothing.
package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Auth is how an action authenticates its callers.
type Auth int

// The ways of the contract.
const (
	Signed           Auth = iota // by a signature
	SignedOrPassword             // by a signature or a login and password
	Open                         // by nothing: credentials are not looked at
	OpenOrKnown                  // by nothing, but with right credentials callers see what is theirs as well
)

// AsksNobody reports whether the action needs no authentication.
func (a Auth) AsksNobody() bool { return a == Open || a == OpenOrKnown }

// Action is one action of the API.
type Action struct {
	Name   string
	Family string
	Auth   Auth
	// on credentials or who may call: a trusted session does not replace the client certificate
	Sensitive bool
	Reads     bool         // it changes nothing
	Request   reflect.Type // a struct, under its schema's name
	Response  reflect.Type // a struct; its schema is Name and "Response"

	run     func(*Call) (reflect.Value, error)
	reaches func(request any) []string // see [Reaching]
}

// Reaching returns the action with the accounts that its transaction needs
// besides the caller's, as far as the request shows. Without them the rule is
// run again for each account that it turns out to need, which on a shared
// journal takes a transaction each.
func Reaching[Req any](a Action, accounts func(*Req) []string) Action {
	a.reaches = func(request any) []string { return accounts(request.(*Req)) }
	return a
}

// WithAuth returns the action with another way to authenticate.
func (a Action) WithAuth(auth Auth) Action {
	a.Auth = auth
	return a
}

// AsSensitive returns the action, marked as [Action.Sensitive].
func (a Action) AsSensitive() Action {
	a.Sensitive = true
	return a
}

// Call is one call of an action, decoded and checked.
type Call struct {
	Action  *Action
	Version Version
	DryRun  bool
	Request any // a pointer to the request struct
	Caller  resource.Caller

	ctx   context.Context
	db    *resource.DB
	pager *Pager
}

// API is the set of all actions.
type API struct {
	actions map[string]*Action
	list    []Action
	pager   *Pager
}

// New returns the set of the actions. It panics if two of them have the same
// name.
func New(actions []Action, pager *Pager) *API {
	a := &API{actions: map[string]*Action{}, list: actions, pager: pager}
	for i := range actions {
		if a.actions[actions[i].Name] != nil {
			panic("api: two actions are called " + actions[i].Name)
		}
		a.actions[actions[i].Name] = &actions[i]
	}
	return a
}

// Actions returns all actions.
func (a *API) Actions() []Action { return a.list }

// Find finds an action that the version has.
func (a *API) Find(name string, version Version) (*Action, error) {
	action := a.actions[name]
	if action == nil || !version.known().Has(name, "") {
		return nil, unknown(name, version)
	}
	return action, nil
}

// Bind decodes the body of a request for an action.
func (a *API) Bind(action *Action, version Version, body []byte) (*Call, error) {
	version = version.known()
	req := reflect.New(action.Request)
	dryRun, err := decode(body, version, req.Elem())
	if err != nil {
		return nil, err
	}
	return &Call{Action: action, Version: version, DryRun: dryRun, Request: req.Interface(), pager: a.pager}, nil
}

// Run runs the call for a caller and returns a value of the Response type.
func (c *Call) Run(ctx context.Context, db *resource.DB, caller resource.Caller) (reflect.Value, error) {
	c.ctx, c.db, c.Caller = ctx, db, caller
	response, err := c.Action.run(c)
	return response, c.naming(err)
}

// naming is the refusal of what does not exist with the name that the request has
// for it: SourceNetId for an id of a Net.
func (c *Call) naming(err error) error {
	f, ok := errors.AsType[*apierror.Error](err)
	if !ok || f.NotFound == "" {
		return err
	}
	req := reflect.ValueOf(c.Request).Elem()
	for i := range req.NumField() {
		if _, isID := resource.FormOf(req.Field(i).Type()); isID && req.Field(i).String() == f.NotFound {
			return f.Code.NotFound(req.Type().Field(i).Name, f.NotFound)
		}
	}
	return err
}

// maxWritten is the maximum number of bytes that one call writes, because the
// calls of all accounts wait while they are made durable.
const maxWritten = 16 << 20

// update runs fn in a transaction over the caller's account.
func (c *Call) update(fn func(*resource.Tx) error) error {
	var others []string
	if c.Action.reaches != nil {
		others = c.Action.reaches(c.Request)
	}
	return c.db.Update(c.ctx, c.Caller, func(tx *resource.Tx) error {
		tx.Bound(maxWritten)
		return fn(tx)
	}, others...)
}

// view runs fn over the caller's account as it is.
func (c *Call) view(fn func(*resource.Tx) error) error { return c.db.View(c.ctx, c.Caller, fn) }

// Resource is a kind and how the API shows it: the one view serves all of its
// actions, so that they cannot disagree about a computed field.
type Resource[T any, I resource.ID, V any] struct {
	kind   *resource.Kind[T, I]
	view   func(*resource.Tx, *T) *V
	family string
}

// NewResource joins a kind to its view. The view gets a copy of the struct that
// it may complete and return; lists in it are shared with others, so it copies
// those that it completes.
func NewResource[T any, I resource.ID, V any](k *resource.Kind[T, I], view func(*resource.Tx, *T) *V) Resource[T, I, V] {
	return Resource[T, I, V]{k, view, k.Facts().Name}
}

// InFamily is the resource with actions that belong to another family of the
// contract than the one of its own name.
func (r Resource[T, I, V]) InFamily(family string) Resource[T, I, V] {
	r.family = family
	return r
}

// Plain is the view of a resource that is shown as it is stored.
func Plain[T any](_ *resource.Tx, v *T) *T { return v }

// show applies the view to a copy, since snapshots are shared.
func (r Resource[T, I, V]) show(tx *resource.Tx, v *T) *V {
	own := *v
	return r.view(tx, &own)
}

// get finds a resource to change. A hidden one counts as absent.
func (r Resource[T, I, V]) get(tx *resource.Tx, id I) (*T, error) {
	v, err := r.kind.Get(tx, id)
	if err == nil && resource.IsHidden(v) {
		return nil, r.kind.ErrNotFound(id)
	}
	return v, err
}

// answer makes the response type with one member.
func answer(name string, t reflect.Type) reflect.Type {
	return reflect.StructOf([]reflect.StructField{{Name: name, Type: t}})
}

// fill makes a response with one member.
func fill(response reflect.Type, member any) reflect.Value {
	v := reflect.New(response).Elem()
	v.Field(0).Set(reflect.ValueOf(member))
	return v
}

// name is the action that a request type belongs to.
func actionName(request reflect.Type) string {
	name, ok := strings.CutSuffix(SchemaName(request), "Request")
	if !ok {
		panic(fmt.Sprintf("api: %s is not named for an action", request))
	}
	return name
}

// Create is the action that makes a resource: rule returns it without its id.
// What must be made along with it, and refers to it, is made by the functions
// that follow.
func Create[T, V, Req any, I resource.ID](r Resource[T, I, V], rule func(*resource.Tx, *Req) (*T, error),
	then ...func(*resource.Tx, *T) error) Action {
	req, facts := reflect.TypeFor[Req](), r.kind.Facts()
	response := answer(facts.Name, reflect.TypeFor[*V]())
	return Action{
		Name: actionName(req), Family: r.family, Request: req, Response: response,
		run: func(c *Call) (reflect.Value, error) {
			var shown *V
			err := c.update(func(tx *resource.Tx) error {
				v, err := rule(tx, c.Request.(*Req))
				if err != nil {
					return err
				}
				if err := r.kind.Insert(tx, v); err != nil {
					return err
				}
				for _, make := range then {
					if err := make(tx, v); err != nil {
						return err
					}
				}
				shown = r.show(tx, v)
				return nil
			})
			if err != nil {
				return reflect.Value{}, err
			}
			return fill(response, shown), nil
		},
	}
}

// Update is the action that changes the resource whose id is in the request.
// The rule changes its copy of it.
func Update[T, V, Req any, I resource.ID](r Resource[T, I, V], rule func(*resource.Tx, *T, *Req) error) Action {
	req, facts := reflect.TypeFor[Req](), r.kind.Facts()
	response, id := answer(facts.Name, reflect.TypeFor[*V]()), idField[I](req)
	return Action{
		Name: actionName(req), Family: r.family, Request: req, Response: response,
		run: func(c *Call) (reflect.Value, error) {
			var shown *V
			err := c.update(func(tx *resource.Tx) error {
				v, err := r.get(tx, idIn[I](c.Request, id))
				if err != nil {
					return err
				}
				if err := rule(tx, v, c.Request.(*Req)); err != nil {
					return err
				}
				if err := r.kind.Put(tx, v); err != nil {
					return err
				}
				shown = r.show(tx, v)
				return nil
			})
			if err != nil {
				return reflect.Value{}, err
			}
			return fill(response, shown), nil
		},
	}
}

// Delete is the action that deletes the resource whose id is in the request,
// unless a reference keeps it or one of the rules refuses. A rule may change
// its copy, which is what stays readable if the kind keeps deleted resources.
func Delete[Req, T, V any, I resource.ID](r Resource[T, I, V], rules ...func(*resource.Tx, *T) error) Action {
	req := reflect.TypeFor[Req]()
	id := idField[I](req)
	return Action{
		Name: actionName(req), Family: r.family, Request: req, Response: reflect.TypeFor[struct{}](),
		run: func(c *Call) (reflect.Value, error) {
			return reflect.ValueOf(struct{}{}), c.update(func(tx *resource.Tx) error {
				v, err := r.get(tx, idIn[I](c.Request, id))
				if err != nil {
					return err
				}
				for _, rule := range rules {
					if err := rule(tx, v); err != nil {
						return err
					}
				}
				return r.kind.Delete(tx, v)
			})
		},
	}
}

// Do is an action of its own. One whose name begins with Read or Check sees the
// region as it is and changes nothing; any other runs in a transaction.
func Do[Req, Resp any](family string, rule func(*resource.Tx, *Req) (*Resp, error)) Action {
	req := reflect.TypeFor[Req]()
	name := actionName(req)
	reads := readsByName(name)
	return Action{
		Name: name, Family: family, Request: req, Response: reflect.TypeFor[Resp](), Reads: reads,
		run: func(c *Call) (reflect.Value, error) {
			var resp *Resp
			in := c.update
			if reads {
				in = c.view
			}
			err := in(func(tx *resource.Tx) (err error) {
				resp, err = rule(tx, c.Request.(*Req))
				return err
			})
			if err != nil {
				return reflect.Value{}, err
			}
			return reflect.ValueOf(resp).Elem(), nil
		},
	}
}

// Command is [Do] for an action whose answer holds nothing.
func Command[Req any](family string, rule func(*resource.Tx, *Req) error) Action {
	return Do(family, func(tx *resource.Tx, req *Req) (*struct{}, error) { return &struct{}{}, rule(tx, req) })
}

// DoPrepared is Do for actions with slow work: prepare runs once, outside the
// transaction, and passes its result to rule. prepare may use only the request
// and randomness.
func DoPrepared[Req, P, Resp any](family string, prepare func(*resource.Tx, *Req) (P, error),
	rule func(*resource.Tx, *Req, P) (*Resp, error)) Action {
	req := reflect.TypeFor[Req]()
	return Action{
		Name: actionName(req), Family: family, Request: req, Response: reflect.TypeFor[Resp](),
		run: func(c *Call) (reflect.Value, error) {
			var prepared P
			err := c.view(func(tx *resource.Tx) (err error) {
				prepared, err = prepare(tx, c.Request.(*Req))
				return err
			})
			if err != nil {
				return reflect.Value{}, err
			}
			var resp *Resp
			err = c.update(func(tx *resource.Tx) (err error) {
				resp, err = rule(tx, c.Request.(*Req), prepared)
				return err
			})
			if err != nil {
				return reflect.Value{}, err
			}
			return reflect.ValueOf(resp).Elem(), nil
		},
	}
}

// DoWithoutTx is an action of its own whose rule runs outside of transactions,
// because it begins those that it needs. Its answer holds nothing.
func DoWithoutTx[Req any](family string, rule func(context.Context, resource.Caller, *Req) error) Action {
	req := reflect.TypeFor[Req]()
	name := actionName(req)
	return Action{
		Name: name, Family: family, Request: req, Response: reflect.TypeFor[struct{}](), Reads: readsByName(name),
		run: func(c *Call) (reflect.Value, error) {
			return reflect.ValueOf(struct{}{}), rule(c.ctx, c.Caller, c.Request.(*Req))
		},
	}
}

// readsByName reports whether an action of its own changes nothing.
func readsByName(name string) bool {
	return strings.HasPrefix(name, "Read") || strings.HasPrefix(name, "Check")
}

// idField finds the field of a request that names the resource it is about.
func idField[I resource.ID](req reflect.Type) int {
	for i := range req.NumField() {
		if req.Field(i).Type == reflect.TypeFor[I]() {
			return i
		}
	}
	panic(fmt.Sprintf("api: %s has no field of the type %s", req, reflect.TypeFor[I]()))
}

func idIn[I resource.ID](req any, field int) I {
	return I(reflect.ValueOf(req).Elem().Field(field).String())
}
