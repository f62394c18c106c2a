import {
  Button, Label, Masthead, MastheadBrand, MastheadContent, MastheadLogo, MastheadMain, MastheadToggle, Nav, NavItem, NavList, Page, PageSidebar,
  PageSidebarBody, PageToggleButton, SkipToContent, Toolbar, ToolbarContent, ToolbarGroup, ToolbarItem,
} from '@patternfly/react-core';
import { useQueryClient } from '@tanstack/react-query';
import { Suspense } from 'react';
import { NavLink, Outlet, useLocation } from 'react-router';

import { api } from '../api/client';
import { sessionKey, useSession } from '../session';
import { NamespaceSelect } from './namespace';
import { LoadingState } from './states';
import { ThemeButton } from './theme';

/** places are the pages of the navigation. Pages below one of the paths belong to it. */
const places: readonly { path: string; title: string; below?: readonly string[] }[] = [
  { path: '/', title: 'Overview' },
  { path: '/catalog', title: 'Catalog', below: ['/catalog', '/install/'] },
  { path: '/installed', title: 'Installed', below: ['/installed', '/operands/'] },
  { path: '/sources', title: 'Catalogs and tenants' },
  { path: '/cluster', title: 'Cluster' },
];

/** Layout is the frame of every page. */
export function Layout() {
  const { pathname } = useLocation();
  const sidebar = (
    <PageSidebar>
      <PageSidebarBody>
        <Nav aria-label="Pages">
          <NavList>
            {places.map(({ path, title, below = [path] }) => (
              <NavItem key={path} isActive={path === '/' ? pathname === '/' : below.some((start) => pathname.startsWith(start))}>
                <NavLink to={path}>{title}</NavLink>
              </NavItem>
            ))}
          </NavList>
        </Nav>
      </PageSidebarBody>
    </PageSidebar>
  );
  return (
    <Page masthead={<Header />} sidebar={sidebar} isManagedSidebar mainContainerId="main" skipToContent={<SkipToContent href="#main">Skip to the content</SkipToContent>}>
      <Suspense fallback={<LoadingState what="the page" />}>
        <Outlet />
      </Suspense>
    </Page>
  );
}

function Header() {
  const session = useSession();
  const queryClient = useQueryClient();
  const signOut = async () => {
    await api.DELETE('/api/v1/session');
    queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey[0] });
    await queryClient.resetQueries({ queryKey: sessionKey });
  };
  return (
    <Masthead>
      <MastheadMain>
        <MastheadToggle>
          <PageToggleButton isHamburgerButton aria-label="Pages" />
        </MastheadToggle>
        <MastheadBrand>
          <MastheadLogo component={(props) => <NavLink {...props} to="/" />}>
            <strong>Mainstay</strong>
          </MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isFullHeight isStatic>
          <ToolbarContent>
            <ToolbarItem><NamespaceSelect /></ToolbarItem>
            <ToolbarGroup align={{ default: 'alignEnd' }}>
              <ToolbarItem><ThemeButton /></ToolbarItem>
              <ToolbarItem visibility={{ default: 'hidden', lg: 'visible' }}><Label variant="outline">{session.user}</Label></ToolbarItem>
              <ToolbarItem><Button variant="secondary" onClick={() => void signOut()}>Sign out</Button></ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
}
