package fbc

// decoder decodes blobs of the schemas that OLM defines, in one pass and without parsing the
// values of properties. It handles common input only and sets unusual for the rest. The caller
// then falls back to encoding/json, which has many more rules and well-known errors.
type decoder struct{ fieldReader }

func (d *decoder) decodePackage(p *Package) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			p.Schema = d.decodeSchemaName()
		case "name":
			p.Name = d.decodeStringOrNull()
		case "defaultChannel":
			p.DefaultChannel = d.decodeStringOrNull()
		case "icon":
			p.Icon = d.decodePackageIcon()
		case "description":
			p.Description = d.decodeStringOrNull()
		case "properties":
			p.Properties = decodeListElements(d, (*decoder).decodeProperty)
		default:
			d.skipUnknownField(key, "schema", "name", "defaultChannel", "icon", "description", "properties")
		}
	}
}

func (d *decoder) decodePackageIcon() *Icon {
	if d.skipNull() {
		return nil
	}

	icon := &Icon{}
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "base64data":
			icon.Data = d.decodeBase64String()
		case "mediatype":
			icon.MediaType = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "base64data", "mediatype")
		}
	}

	return icon
}

func (d *decoder) decodeChannel(c *Channel) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			c.Schema = d.decodeSchemaName()
		case "package":
			c.Package = d.decodeStringOrNull()
		case "name":
			c.Name = d.decodeStringOrNull()
		case "entries":
			c.Entries = decodeListElements(d, (*decoder).decodeChannelEntry)
		case "properties":
			c.Properties = decodeListElements(d, (*decoder).decodeProperty)
		default:
			d.skipUnknownField(key, "schema", "package", "name", "entries", "properties")
		}
	}
}

func (d *decoder) decodeChannelEntry(e *ChannelEntry) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "name":
			e.Name = d.decodeStringOrNull()
		case "replaces":
			e.Replaces = d.decodeStringOrNull()
		case "skips":
			e.Skips = decodeListElements(d, func(d *decoder, s *string) { *s = d.decodeStringOrNull() })
		case "skipRange":
			e.SkipRange = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "name", "replaces", "skips", "skipRange")
		}
	}
}

func (d *decoder) decodeBundle(b *Bundle) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			b.Schema = d.decodeSchemaName()
		case "name":
			b.Name = d.decodeStringOrNull()
		case "package":
			b.Package = d.decodeStringOrNull()
		case "image":
			b.Image = d.decodeStringOrNull()
		case "properties":
			b.Properties = decodeListElements(d, (*decoder).decodeProperty)
		case "relatedImages":
			b.RelatedImages = decodeListElements(d, (*decoder).decodeRelatedImage)
		default:
			d.skipUnknownField(key, "schema", "name", "package", "image", "properties", "relatedImages")
		}
	}
}

func (d *decoder) decodeProperty(p *Property) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "type":
			p.Type = d.decodePropertyType()
		case "value":
			p.Value = d.decodeRawValue()
		default:
			d.skipUnknownField(key, "type", "value")
		}
	}
}

func (d *decoder) decodeRelatedImage(i *RelatedImage) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "name":
			i.Name = d.decodeStringOrNull()
		case "image":
			i.Image = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "name", "image")
		}
	}
}

func (d *decoder) decodeDeprecations(p *Deprecations) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			p.Schema = d.decodeSchemaName()
		case "package":
			p.Package = d.decodeStringOrNull()
		case "entries":
			p.Entries = decodeListElements(d, (*decoder).decodeDeprecationEntry)
		default:
			d.skipUnknownField(key, "schema", "package", "entries")
		}
	}
}

func (d *decoder) decodeDeprecationEntry(e *DeprecationEntry) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "reference":
			if !d.skipNull() {
				d.decodeDeprecationReference(&e.Reference)
			}
		case "message":
			e.Message = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "reference", "message")
		}
	}
}

func (d *decoder) decodeDeprecationReference(r *DeprecationReference) {
	for more := d.enterObject(); more; more = d.moveToNextElement() {
		switch key := d.readObjectKey(); string(key) {
		case "schema":
			r.Schema = d.decodeSchemaName()
		case "name":
			r.Name = d.decodeStringOrNull()
		default:
			d.skipUnknownField(key, "schema", "name")
		}
	}
}

// decodeListElements decodes a list, or null as nil.
func decodeListElements[T any](d *decoder, read func(*decoder, *T)) []T {
	if d.skipNull() {
		return nil
	}
	if d.cursor.Kind() != '[' {
		d.unusual = true
		return nil
	}

	values := []T{}
	for more := d.cursor.Open(); more; more = d.moveToNextElement() {
		values = append(values, *new(T))
		if !d.skipNull() {
			read(d, &values[len(values)-1])
		}
	}

	return values
}
