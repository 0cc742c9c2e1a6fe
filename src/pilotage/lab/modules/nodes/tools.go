//go:build tools

// Programs of the lab that are built from this module; the import keeps kwok in go.mod.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
