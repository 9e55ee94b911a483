package iam

import (
	"context"
	"regexp"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// Account owns resources and answers for the calls about them.
type Account struct {
	AccountId        id.Account // The ID of the account.
	AdditionalEmails []Email    `wire:"omitempty"` // Addresses that notifications also go to.
	City             string     // The city of the owner.
	CompanyName      string     // The company the account is for.
	Country          string     // The country of the owner.
	CustomerId       string     // The ID of the customer, 8 digits.
	Email            Email      // The address that logs in and that notifications go to.
	FirstName        string     // The first name of the owner.
	JobTitle         string     `wire:"omitempty"` // The job title of the owner.
	LastName         string     // The last name of the owner.
	MobileNumber     string     `wire:"omitempty"` // The mobile phone number of the owner.
	// Whether the account may log in with credentials of this region although an identity
	// federation is active.
	OutscaleLoginAllowed bool
	PhoneNumber          string `wire:"omitempty"` // The landline phone number of the owner.
	StateProvince        string `wire:"omitempty"` // The state or province of the owner.
	VatNumber            string `wire:"omitempty"` // The value added tax number of the company.
	ZipCode              string // The ZIP code of the city.

	PasswordHash string             `wire:"-"` // See [HashPassword]; empty: nobody logs in.
	Policy       ApiAccessPolicy    `wire:"-"` // The one API access policy.
	CreationDate api.OffsetDateTime `wire:"-"` // When the account was created.
}

// Accounts holds in each account the one resource that describes it.
var Accounts = &resource.Kind[Account, id.Account]{Name: "Account"}

func accountActions(check LoginCheck) []api.Action {
	r := api.NewResource(Accounts, api.Plain)
	return []api.Action{
		api.Read[ReadAccountsRequest](r),
		api.Do("Account", updateAccount).AsSensitive(), // the Email is the login
		api.DoWithoutTx("Account", checkAuthentication(check)),
	}
}

// Email is one email address: a text without spaces, commas and the like, an at
// sign, and a domain with a dot.
type Email string

// The pattern of the contract, `.+` before the at sign, also admits several
// addresses in one text.
var emails = regexp.MustCompile(`^[^\x00-\x20\x7f@,;:<>()\[\]"\\]+@[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+$`)

// maxEmail is the longest address that mail can be sent to.
const maxEmail = 254

// Check reports a text that is no email address.
func (e Email) Check() error {
	if len(e) > maxEmail || !emails.MatchString(string(e)) {
		return apierror.InvalidEmail.Errorf("'%.100s' is not one email address, such as name@example.com.", string(e))
	}
	return nil
}

// accountOf finds the account that the transaction is over.
func accountOf(tx *resource.Tx) (*Account, error) { return Accounts.Get(tx, id.Account(tx.Account())) }

// NewAccount says what a new account is like.
type NewAccount struct {
	AccountId  id.Account // chosen if empty
	CustomerId string     // chosen if empty
	Email      string
	Password   string // empty: nobody logs in

	PasswordHash string // of the password, if it was made before

	AdditionalEmails                                                   []Email
	City, CompanyName, Country, FirstName, JobTitle, LastName, ZipCode string
	MobileNumber, PhoneNumber, StateProvince, VatNumber                string
}

// Create makes the account, with the API access rule that admits everybody and
// without an access key.
func (n NewAccount) Create(tx *resource.Tx) (*Account, error) {
	account := &Account{
		AccountId: n.AccountId, AdditionalEmails: n.AdditionalEmails, City: n.City, CompanyName: n.CompanyName,
		Country: n.Country, CustomerId: n.CustomerId, Email: Email(n.Email), FirstName: n.FirstName,
		JobTitle: n.JobTitle, LastName: n.LastName, MobileNumber: n.MobileNumber, OutscaleLoginAllowed: true,
		PhoneNumber: n.PhoneNumber, StateProvince: n.StateProvince, VatNumber: n.VatNumber, ZipCode: n.ZipCode,
		CreationDate: api.OffsetAt(tx.Now()),
	}
	if err := account.Email.Check(); err != nil {
		return nil, apierror.In("Email", err)
	}
	if err := account.identify(tx); err != nil {
		return nil, err
	}
	own := tx.In(string(account.AccountId))
	if err := account.takeLogin(own, account.Email); err != nil {
		return nil, err
	}
	if err := ApiAccessRules.Insert(own, defaultRule()); err != nil {
		return nil, err
	}
	// Hashing takes its time. All accounts that are written to are in memory
	// by now, so the transaction will not run again and hash once more.
	account.PasswordHash = n.PasswordHash
	if n.Password != "" && n.PasswordHash == "" {
		account.PasswordHash = HashPassword(tx.Rand(), n.Password)
	}
	return account, Accounts.Insert(own, account)
}

var customerIDs = resource.Form{Length: 8, Alphabet: resource.Decimal}

// identify chooses the IDs that were not given and checks those that were.
func (a *Account) identify(tx *resource.Tx) error {
	form := a.AccountId.Form()
	if a.AccountId == "" {
		a.AccountId = id.Account(form.Random(tx.Rand()))
		for a.AccountId == id.Outscale || Accounts.Has(tx.In(string(a.AccountId)), a.AccountId) {
			a.AccountId = id.Account(form.Random(tx.Rand()))
		}
	}
	if a.CustomerId == "" {
		a.CustomerId = customerIDs.Random(tx.Rand())
	}
	if form.Check(string(a.AccountId)) != nil {
		return apierror.InvalidValue.Errorf("AccountId: '%.100s' is not %d digits.", string(a.AccountId), form.Length)
	}
	if a.AccountId == id.Outscale {
		return apierror.AlreadyExists.Errorf("AccountId: %s is the region's own.", a.AccountId)
	}
	if customerIDs.Check(a.CustomerId) != nil {
		return apierror.InvalidValue.Errorf("CustomerId: '%.100s' is not %d digits.", a.CustomerId, customerIDs.Length)
	}
	return nil
}

// takeLogin makes an email address the one that logs in to the account.
func (a *Account) takeLogin(tx *resource.Tx, email Email) error {
	login := loginName(string(email))
	if _, taken := login.owner(tx); taken {
		return apierror.EmailTaken.Errorf("The Email '%s' is used already.", email)
	}
	return login.enter(tx, a.AccountId)
}

// ReadAccountsRequest asks for the account that sends it.
type ReadAccountsRequest struct{}

// UpdateAccountRequest asks to change the account that sends it. What is not
// given stays.
type UpdateAccountRequest struct {
	// Addresses that notifications also go to, in place of all present ones; an empty list
	// removes them.
	AdditionalEmails []Email
	City             *string // The city of the owner.
	CompanyName      *string // The company the account is for.
	Country          *string // The country of the owner.
	// The address that logs in and that notifications go to. No other account of the region has
	// it.
	Email         Email
	FirstName     *string // The first name of the owner.
	JobTitle      *string // The job title of the owner.
	LastName      *string // The last name of the owner.
	MobileNumber  *string // The mobile phone number of the owner.
	PhoneNumber   *string // The landline phone number of the owner.
	StateProvince *string // The state or province of the owner.
	VatNumber     *string // The value added tax number of the company.
	ZipCode       *string // The ZIP code of the city.
}

// UpdateAccountResponse shows the account as it has become.
type UpdateAccountResponse struct{ Account *Account }

func updateAccount(tx *resource.Tx, req *UpdateAccountRequest) (*UpdateAccountResponse, error) {
	a, err := accountOf(tx)
	if err != nil {
		return nil, err
	}
	change(&a.City, req.City)
	change(&a.CompanyName, req.CompanyName)
	change(&a.Country, req.Country)
	change(&a.FirstName, req.FirstName)
	change(&a.JobTitle, req.JobTitle)
	change(&a.LastName, req.LastName)
	change(&a.MobileNumber, req.MobileNumber)
	change(&a.PhoneNumber, req.PhoneNumber)
	change(&a.StateProvince, req.StateProvince)
	change(&a.VatNumber, req.VatNumber)
	change(&a.ZipCode, req.ZipCode)
	if req.AdditionalEmails != nil {
		a.AdditionalEmails = req.AdditionalEmails
	}
	if req.Email != "" {
		if err := a.changeEmail(tx, req.Email); err != nil {
			return nil, err
		}
	}
	return &UpdateAccountResponse{a}, Accounts.Put(tx, a)
}

func change(field, to *string) {
	if to != nil {
		*field = *to
	}
}

func (a *Account) changeEmail(tx *resource.Tx, to Email) error {
	old := loginName(string(a.Email))
	a.Email = to
	if loginName(string(to)) == old {
		return nil
	}
	if err := a.takeLogin(tx, to); err != nil {
		return err
	}
	return old.leave(tx)
}

// CheckAuthenticationRequest asks whether a login and a password belong
// together.
type CheckAuthenticationRequest struct {
	// The email address of an account, or the ID of an account, a slash and the name of an EIM
	// user of it.
	Login    string `api:"required"`
	Password string `api:"required"` // The password of the account or of the user.
}

func checkAuthentication(check LoginCheck) func(context.Context, resource.Caller, *CheckAuthenticationRequest) error {
	return func(ctx context.Context, caller resource.Caller, req *CheckAuthenticationRequest) error {
		return check(ctx, caller, req.Login, req.Password)
	}
}
