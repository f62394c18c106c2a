package bundle

import (
	"fmt"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ReadManifests reads the files of a folder of manifests, by name, within the limits of a
// bundle. An error of a single file is in its Err.
func ReadManifests(fsys fs.FS, folder string) ([]File, error) {
	r := &folderReader{fsys: fsys}
	found, files, err := r.readFolder(folder)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%s: %w", folder, fs.ErrNotExist)
	}

	for i := range files {
		files[i].decodeManifest()
	}

	return files, nil
}

// DetectMediaType returns the format of a folder of manifests: a Helm chart if it has a
// Chart.yaml with a name, a registry+v1 bundle if it has a ClusterServiceVersion, or else
// plain manifests. directory is the folder's name for the error.
func DetectMediaType(files []File, directory string) (string, error) {
	mediaType, found := MediaTypePlain, false
	for _, file := range files {
		if file.Folder {
			continue
		}
		found = true
		if path.Base(file.Name) == "Chart.yaml" && len(file.Documents) > 0 {
			if name, _ := file.Documents[0]["name"].(string); name != "" {
				return MediaTypeHelm, nil
			}
		}
		if file.Object().GetKind() == kindCSV {
			mediaType = MediaType
		}
	}

	if !found {
		return "", fmt.Errorf("The directory %s contains no yaml files", directory) //nolint:staticcheck // ST1005: the text that scripts look for
	}
	return mediaType, nil
}

// Object returns the object of the first document. It is empty when there is none.
func (f File) Object() *unstructured.Unstructured {
	if len(f.Documents) == 0 {
		return &unstructured.Unstructured{}
	}
	return &unstructured.Unstructured{Object: f.Documents[0]}
}
