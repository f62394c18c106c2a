import { expect, test } from 'vitest';

import { asSentence } from './sentence';

test('a sentence begins with a capital letter, a name stays as it is', () => {
  expect(['it waits for you', 'operator', 'a', 'hello-operator.v1 is installed', 'Ready', ''].map(asSentence))
    .toEqual(['It waits for you', 'Operator', 'A', 'hello-operator.v1 is installed', 'Ready', '']);
});
