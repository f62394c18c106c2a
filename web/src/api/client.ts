import createClient, { type Middleware } from 'openapi-fetch';

import type { components, paths } from './schema';

export type Schemas = components['schemas'];

/** ApiError is a problem that the console reports (RFC 9457), with advice. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly advice: string | undefined,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

let csrfToken = '';

/** setCSRFToken sets the token that every write repeats. */
export function setCSRFToken(token: string): void {
  csrfToken = token;
}

const listeners = new Set<() => void>();

/** onSignedOut calls a function whenever a response says that the session has ended. It returns a function that stops that. */
export function onSignedOut(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const middleware: Middleware = {
  onRequest({ request }) {
    if (request.method !== 'GET') request.headers.set('X-CSRF-Token', csrfToken);
    return request;
  },
  async onResponse({ request, response }) {
    if (response.ok) return undefined;
    if (response.status === 401 && !request.url.endsWith('/session')) listeners.forEach((listener) => { listener(); });
    throw await readProblem(response);
  },
  onError() {
    return new ApiError(503, 'The console does not answer.', 'Check that it is running. The page tries again by itself.');
  },
};

async function readProblem(response: Response): Promise<ApiError> {
  try {
    const problem = (await response.json()) as { detail?: string; advice?: string; errors?: { message?: string; location?: string }[] };
    const faults = (problem.errors ?? []).map((e) => `${e.location ?? ''}: ${e.message ?? ''}`);
    return new ApiError(response.status, [problem.detail ?? response.statusText, ...faults].join(' '), problem.advice);
  } catch {
    return new ApiError(response.status, response.statusText, undefined);
  }
}

/** api calls the operations of the console. It throws an ApiError. */
export const api = createClient<paths>({ baseUrl: '/' });
api.use(middleware);

/** unwrap returns the data of a response. Errors have been thrown already. */
export async function unwrap<T>(response: Promise<{ data?: T }>): Promise<T> {
  const { data } = await response;
  if (data === undefined) throw new ApiError(500, 'The console sent an empty answer.', undefined);
  return data;
}
