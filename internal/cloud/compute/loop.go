package compute

import (
	"errors"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// untilDone tells a driver's answer that a change is under way from a failure.
func untilDone(err error) (again time.Time, failure error) {
	if later, ok := errors.AsType[driver.Later](err); ok {
		return later.At, nil
	}
	return time.Time{}, err
}
