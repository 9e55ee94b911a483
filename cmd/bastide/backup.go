package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

// backup copies a region to a directory. A running region has exclusive access
// to its files, so it copies itself on a request to its admin listener.
func backup(ctx context.Context, args []string, out, messages io.Writer) error {
	var admin string
	o := region.Options{Clock: clock.System(), Logger: slog.New(slog.NewTextHandler(messages, nil))}
	flags := flag.NewFlagSet("backup", flag.ContinueOnError)
	flags.StringVar(&admin, "admin", "127.0.0.1:4281", "`ADDR` of the region's admin listener, if it runs")
	flags.StringVar(&o.Data, "data", "./bastide-data", "`DIR` of the region's data")
	flags.StringVar(&o.MasterKey, "master-key", "", "`FILE` as given to serve, for a region that does not run")
	dir, err := parseWith("directory", flags, args, messages)
	if err != nil {
		return err
	}
	if dir == "" {
		return fmt.Errorf("no directory was given to copy the region to: %w", errUsage)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	made, err := region.Backup(ctx, o, dir)
	switch {
	case errors.Is(err, sqljournal.ErrInUse):
		return askForBackup(ctx, admin, o.Data, dir, out)
	case err != nil:
		return err
	}
	_, err = fmt.Fprint(out, made)
	return err
}

func askForBackup(ctx context.Context, admin, data, dir string, out io.Writer) error {
	data, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	query := url.Values{"data": {data}, "dir": {dir}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+admin+"/backup?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	token, err := region.Token(data)
	if err != nil {
		return fmt.Errorf("reading the token of the running region: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if ctx.Err() != nil {
		return errors.New("interrupted: the region removes what it has copied")
	}
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the whole URL
		}
		return fmt.Errorf("the region in %s runs, but not with its admin listener at %s: give that address with --admin, or stop "+
			"the region first: %w",
			data, admin, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("the region stopped during the backup: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responds: %s", admin, strings.TrimSpace(string(text)))
	}
	_, err = out.Write(text)
	return err
}
