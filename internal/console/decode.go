package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// decodeManifest decodes an object of a kind in a request. Another kind, and a field that the kind does not have, is an error.
func decodeManifest(version schema.GroupVersion, kind string, content map[string]any, object any) error {
	if content["apiVersion"] != version.String() || content["kind"] != kind {
		return newProblem(http.StatusUnprocessableEntity, fmt.Sprintf("The object must be a %s of %s.", kind, version), "Correct its apiVersion and kind.")
	}
	return decodeStrictly(kind, content, object)
}

// decodeStrictly decodes a part of a request into an object of an API. A field that the API does not have is an error.
func decodeStrictly(what string, content map[string]any, object any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}

	faults, err := kjson.UnmarshalStrict(data, object)
	invalid := errors.Join(append(faults, err)...)
	if invalid == nil {
		return nil
	}
	return newProblem(http.StatusUnprocessableEntity, fmt.Sprintf("The %s is not valid: %s.", what, strings.ReplaceAll(invalid.Error(), "\n", ", ")), "Correct its YAML.")
}
