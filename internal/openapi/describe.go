package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
)

// Describe reads the comments of types and of struct fields from the Go files
// in some directories. It skips tests, and paths that are not directories.
func Describe(dirs ...string) (api.Comments, error) {
	comments := api.Comments{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			describeFile(comments, file)
		}
	}
	return comments, nil
}

func describeFile(comments api.Comments, file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			spec := spec.(*ast.TypeSpec)
			name := file.Name.Name + "." + spec.Name.Name
			doc := text(spec.Doc, spec.Comment)
			if doc == "" && len(group.Specs) == 1 {
				doc = text(group.Doc) // its place in a declaration without parentheses
			}
			note(comments, name, doc)
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					for _, ident := range field.Names {
						note(comments, name+"."+ident.Name, text(field.Doc, field.Comment))
					}
				}
			}
		}
	}
}

// note adds a comment, if there is one.
func note(comments api.Comments, name, comment string) {
	if comment != "" {
		comments[name] = comment
	}
}

// text returns the text of comments on one line.
func text(groups ...*ast.CommentGroup) string {
	var parts []string
	for _, g := range groups {
		parts = append(parts, strings.Fields(g.Text())...)
	}
	return strings.Join(parts, " ")
}
