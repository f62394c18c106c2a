import type { Schemas } from '../../api/client';
import type { GraphEdge, GraphNode } from '../graph';

export type PackageDetails = Schemas['PackageDetails'];

/** Choice is the channel and version that the page of a package shows. */
export interface Choice {
  channel: Schemas['ChannelSummary'] | undefined;
  /** The versions of the channel, the newest first. */
  versions: Schemas['VersionSummary'][];
  version: Schemas['VersionSummary'] | undefined;
  /** The description of the version, or that of the newest one of the channel. Only heads of channels are described. */
  release: Schemas['ReleaseDetails'] | undefined;
}

/** chooseVersion returns what is shown for names from the address. Unknown names mean the default channel and the head of the channel. */
export function chooseVersion(details: PackageDetails, channelName: string | null, versionName: string | null): Choice {
  const wanted = details.versions.find(({ name }) => name === versionName);
  const named = details.channels.find(({ name }) => name === channelName);
  const usual = details.channels.find(({ name }) => name === details.defaultChannel) ?? details.channels[0];
  const inUsual = wanted === undefined || usual === undefined || (wanted.channels ?? []).includes(usual.name);
  const channel = named ?? (inUsual ? usual : details.channels.find(({ name }) => (wanted.channels ?? []).includes(name)) ?? usual);

  const versions = channel === undefined ? details.versions : details.versions.filter((v) => (v.channels ?? []).includes(channel.name));
  const head = versions.find(({ name }) => name === channel?.head) ?? versions[0];
  const version = versions.find(({ name }) => name === wanted?.name) ?? head;
  const release = [version, head, details.versions[0]].map((v) => details.releases.find(({ bundle }) => bundle === v?.name)).find((found) => found !== undefined);
  return { channel, versions, version, release: release ?? details.releases[0] };
}

/** The kinds of updates in words. */
export const updateKinds = [['replaces', 'replaces'], ['skips', 'skips'], ['skipRange', 'skips by range']] as const;

/** drawUpdates returns the upgrade graph of a package. Of the updates by range, it has those of the selected version, and those that no others imply. */
export function drawUpdates(details: PackageDetails, selected?: string): { nodes: GraphNode[]; edges: GraphEdge[] } {
  const heads = new Map<string, string[]>();
  for (const { head, name } of details.channels) {
    if (head !== undefined) heads.set(head, [...(heads.get(head) ?? []), name]);
  }
  const nodes = details.versions.map((v): GraphNode => {
    const badges = [...(heads.get(v.name) ?? []).map((channel) => `head of ${channel}`), ...(v.deprecated === undefined ? [] : ['deprecated'])];
    const node: GraphNode = { id: v.name, label: v.version ?? v.name, badges };
    if (v.deprecated !== undefined) return { ...node, state: 'warning', description: v.deprecated };
    return heads.has(v.name) ? { ...node, state: 'current' } : node;
  });
  return { nodes, edges: omitImplied(details.updates ?? [], selected) };
}

/** omitImplied leaves out updates by range for which two others lead to the same version: a range may update each version to each newer one. */
function omitImplied(edges: readonly GraphEdge[], selected: string | undefined): GraphEdge[] {
  const targets = new Map<string, Set<string>>();
  for (const { from, to } of edges) targets.set(from, (targets.get(from) ?? new Set<string>()).add(to));
  const isImplied = ({ from, to }: GraphEdge) => [...(targets.get(from) ?? [])].some((between) => targets.get(between)?.has(to) === true);
  return edges.filter((edge) => edge.kind !== 'skipRange' || edge.from === selected || edge.to === selected || !isImplied(edge));
}
