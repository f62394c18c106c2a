import { Button } from '@patternfly/react-core';
import { MoonIcon, SunIcon } from '@patternfly/react-icons';
import { useEffect, useState } from 'react';

const storageKey = 'mainstay-theme';

/** ThemeButton switches between light and dark. The first choice is that of the system. */
export function ThemeButton() {
  const [isDark, setDark] = useState(() => {
    const chosen = localStorage.getItem(storageKey);
    return chosen === null ? window.matchMedia('(prefers-color-scheme: dark)').matches : chosen === 'dark';
  });
  useEffect(() => { document.documentElement.classList.toggle('pf-v6-theme-dark', isDark); }, [isDark]);
  const toggle = () => {
    localStorage.setItem(storageKey, isDark ? 'light' : 'dark');
    setDark(!isDark);
  };
  return <Button variant="plain" aria-label={isDark ? 'Use the light theme' : 'Use the dark theme'} icon={isDark ? <SunIcon /> : <MoonIcon />} onClick={toggle} />;
}
