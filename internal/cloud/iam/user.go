package iam

import (
	"regexp"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// User is an EIM user: an identity within an account, with access keys of its
// own and only the permissions it is given.
type User struct {
	CreationDate         api.OffsetDateTime // When the user was created (UTC).
	LastModificationDate api.OffsetDateTime // When the user last changed (UTC).
	// Whether the user may log in with credentials of this region although an identity
	// federation is active.
	OutscaleLoginAllowed bool
	Path                 Path    // Where in the organization the user is.
	UserEmail            Email   // The email address of the user.
	UserId               id.User // The ID of the user, which a new name leaves as it is.
	// The name of the user, unique in the account. Upper and lower case differ.
	UserName UserName

	UserGroupIds []id.UserGroup `wire:"-"` // The groups that the user is in.
	Permissions  Permissions    `wire:"-"` // What the user may do, beyond what its groups may.
	PasswordHash string         `wire:"-"` // See [HashPassword]; empty: the user has no password.
}

// Users are the EIM users of an account. One that still has access keys stays.
var Users = &resource.Kind[User, id.User]{
	Name: "User", NotFound: apierror.UserNotFound,
	Unique: []string{"UserName"}, Conflict: apierror.UserNameTaken,
}

// maxUsers bounds the users of an account.
const maxUsers = 5000

func userActions() []api.Action {
	r := api.NewResource(Users, api.Plain)
	return []api.Action{
		api.Create(r, createUser).AsSensitive(),
		api.Read[ReadUsersRequest](r),
		api.Do("User", updateUser).AsSensitive(),
		api.Command("User", deleteUser).AsSensitive(),
	}
}

// UserName is the name of an EIM user: 1 to 64 alphanumeric characters and + = , . @ - _.
type UserName string

var userNames = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]{1,64}$`)

// Check reports a name that no user can have.
func (n UserName) Check() error {
	if !userNames.MatchString(string(n)) {
		return apierror.InvalidValue.Errorf("'%.100s' is not a name of 1 to 64 alphanumeric characters and + = , . @ - _.", string(n))
	}
	return nil
}

// Path says where in an organization something is, such as /sales/europe/. It
// begins and ends with a slash and has at most 512 characters, alphanumeric
// ones, slashes and underscores.
type Path string

var paths = regexp.MustCompile(`^/([A-Za-z0-9_/]*/)?$`)

const maxPath = 512

// Check reports a text that is no path.
func (p Path) Check() error {
	switch {
	case p == "": // clients send it for a path that they leave out
		return nil
	case len(p) > maxPath:
		return apierror.InvalidLength.Errorf("A path has at most %d characters.", maxPath)
	case !paths.MatchString(string(p)):
		return apierror.InvalidValue.Errorf("'%s' is not a path: one begins and ends with a slash, and has alphanumeric characters, slashes and underscores.", string(p))
	}
	return nil
}

// orRoot is the path that applies if none is given.
func (p Path) orRoot() Path {
	if p == "" {
		return "/"
	}
	return p
}

// userNamed finds the user of a name.
func userNamed(tx *resource.Tx, name string) (*User, error) {
	for u := range Users.Where(tx, "UserName", name) {
		return u, nil
	}
	return nil, apierror.UserNotFound.NotFound("UserName", name)
}

// userAt finds the user of a name and a path.
func userAt(tx *resource.Tx, name string, path Path) (*User, error) {
	u, err := userNamed(tx, name)
	if err == nil && u.Path != path.orRoot() {
		return nil, apierror.UserNotFound.NotFound("UserName", name)
	}
	return u, err
}

// CreateUserRequest asks for an EIM user.
type CreateUserRequest struct {
	Path      Path     // Where in the organization the user is, `/` by default.
	UserEmail Email    // The email address of the user, the account's by default.
	UserName  UserName `api:"required"` // A name that no other user of the account has.
}

func createUser(tx *resource.Tx, req *CreateUserRequest) (*User, error) {
	if Users.Count(tx) >= maxUsers {
		return nil, apierror.TooManyVms.Errorf("An account has at most %d EIM users.", maxUsers)
	}
	now := api.OffsetAt(tx.Now())
	u := &User{
		CreationDate: now, LastModificationDate: now, OutscaleLoginAllowed: true,
		Path: req.Path.orRoot(), UserEmail: req.UserEmail, UserName: req.UserName,
	}
	if u.UserEmail == "" {
		account, err := accountOf(tx)
		if err != nil {
			return nil, err
		}
		u.UserEmail = account.Email
	}
	return u, nil
}

// ReadUsersRequest asks for the EIM users of the account.
type ReadUsersRequest struct {
	Filters *FiltersUsers // What to select by; all users by default.
	api.IndexPage
}

// FiltersUsers selects EIM users.
type FiltersUsers struct {
	UserIds []id.User // The IDs of the users.
}

// UpdateUserRequest asks to change an EIM user. What is not given stays.
type UpdateUserRequest struct {
	NewPath      Path     // A new path.
	NewUserEmail Email    // A new email address.
	NewUserName  UserName // A new name, which no other user of the account has.
	UserName     string   `api:"required"` // The present name of the user.
}

// UpdateUserResponse shows the user as it has become.
type UpdateUserResponse struct{ User *User }

func updateUser(tx *resource.Tx, req *UpdateUserRequest) (*UpdateUserResponse, error) {
	u, err := userNamed(tx, req.UserName)
	if err != nil {
		return nil, err
	}
	if req.NewPath != "" {
		u.Path = req.NewPath
	}
	if req.NewUserEmail != "" {
		u.UserEmail = req.NewUserEmail
	}
	if req.NewUserName != "" {
		u.UserName = req.NewUserName
	}
	u.LastModificationDate = api.OffsetAt(tx.Now())
	return &UpdateUserResponse{u}, Users.Put(tx, u)
}

// DeleteUserRequest asks to delete an EIM user that is in no group and has no access
// key and no linked policy. Its inline policies are deleted with it.
type DeleteUserRequest struct {
	UserName string `api:"required"` // The name of the user.
}

func deleteUser(tx *resource.Tx, req *DeleteUserRequest) error {
	u, err := userNamed(tx, req.UserName)
	if err != nil {
		return err
	}
	if n := len(u.UserGroupIds); n > 0 {
		return apierror.InUse.Errorf("The user %s is in %d groups: remove it from them first.", u.UserName, n)
	}
	if linked := u.Permissions.linked(tx); len(linked) > 0 {
		return apierror.InUse.Errorf("The user %s has the linked policy %s: unlink it first.", u.UserName, linked[0].PolicyName)
	}
	return Users.Delete(tx, u)
}
