package sim

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// guest is the operating system of a machine.
type guest struct {
	wanted          bool // the last request was to turn the machine on
	on              bool
	offBy           driver.Cause
	ignoresShutdown bool // it ignores requests to shut down
	booted          bool // at least once
	boots           int  // Machine.Boots at the last start

	console  []byte
	password []byte
}

// starts reports whether a machine must be started to be as requested. A nil
// guest belongs to a machine that is new.
func (g *guest) starts(m *driver.Machine) bool {
	return m.On && (g == nil || !g.wanted || m.Boots > g.boots)
}

// start boots the guest.
func (g *guest) start(m *driver.Machine, now time.Time) {
	g.print(now, "%s boots (%d): %d cores, %d GiB of memory, %s", m.ID, m.Boots, m.Cores, m.Memory, m.BootMode)
	for _, d := range m.Disks {
		g.print(now, "%s is %s", d.Device, d.Disk)
	}
	for _, n := range m.Nics {
		g.print(now, "eth%d has %v", n.Device, n.Private)
	}
	g.print(now, "found %d keys and %d bytes of user data", len(m.Keys), len(m.UserData))
	g.print(now, "%s login:", m.ID)
	g.password = nil
	if first := m.Boots <= 1 && !g.booted; first && m.Windows {
		g.password = sealedPassword(m)
	}
	g.on, g.offBy, g.booted, g.boots = true, "", true, m.Boots
}

// stop stops the guest. The cause is empty if the stop was requested.
func (g *guest) stop(by driver.Cause) { g.on, g.offBy, g.ignoresShutdown = false, by, false }

// consoleSize is how many bytes of a console are kept: as many as AWS keeps.
const consoleSize = 64 << 10

// print writes a line to the console. Secrets are not printed, because a user
// who may read consoles need not be allowed to read user data.
func (g *guest) print(now time.Time, format string, args ...any) {
	line := now.UTC().Format(time.RFC3339) + " " + fmt.Sprintf(format, args...) + "\r\n"
	g.console = append(g.console, line...)
	if extra := len(g.console) - consoleSize; extra > 0 {
		g.console = append([]byte(nil), g.console[extra:]...)
	}
}

// sealedPassword returns the administrator's password of a Windows machine,
// encrypted for its first RSA key; nil if it has none. The password is derived
// from the name of the machine, because it protects nothing.
func sealedPassword(m *driver.Machine) []byte {
	for _, line := range m.Keys {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			continue
		}
		public, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			continue
		}
		if key, ok := public.CryptoPublicKey().(*rsa.PublicKey); ok {
			chosen := sha256.Sum256([]byte(m.Account + " " + m.ID))
			password := base32.StdEncoding.EncodeToString(chosen[:10])
			// Clients of AWS and of OUTSCALE decrypt this format. The library uses its own source
			// of randomness whatever is passed.
			sealed, err := rsa.EncryptPKCS1v15(nil, key, []byte(password))
			if err != nil {
				return nil // the key is too short
			}
			return sealed
		}
	}
	return nil
}
