import { ConfigurationEditor } from '../components/configuration';
import { LoadingState } from '../components/states';
import { getAt } from '../components/schemaform/schema';
import { isRecord, parseObject } from '../components/yamltext';
import { subscriptions, useDefinition } from './operands/shared';

interface OperatorConfigurationProps {
  namespace: string;
  /** text is spec.config of the Subscription as YAML. */
  text: string;
  onChange: (text: string) => void;
}

/** OperatorConfiguration edits spec.config of a Subscription by form or as YAML. The form is that of the schema that the API server publishes. */
export function OperatorConfiguration({ namespace, text, onChange }: OperatorConfigurationProps) {
  const definition = useDefinition(subscriptions, namespace);
  if (definition.isPending) return <LoadingState what="the schema" />;

  const schema = readConfigSchema(definition.data?.schema);
  return <ConfigurationEditor text={text} onChange={onChange} bundle={schema === undefined ? {} : { schema }} faults={[]} />;
}

/** readConfigSchema returns the schema of spec.config, or undefined if the schema of Subscriptions has none. */
export function readConfigSchema(schema: Record<string, unknown> | undefined): Record<string, unknown> | undefined {
  const config = getAt(schema, ['properties', 'spec', 'properties', 'config']);
  return isRecord(config) && isRecord(config['properties']) ? { ...config, components: schema?.['components'] } : undefined;
}

/** readConfig returns spec.config of a Subscription that is given as YAML, or undefined if it has none. */
export function readConfig(yaml: string): Record<string, unknown> | undefined {
  const config = getAt(parseObject(yaml).value, ['spec', 'config']);
  return isRecord(config) ? config : undefined;
}
