import Link from 'next/link';
export const generateStaticParams = () => [...Array(12).keys()].map(i => ({id: String(i + 1)}));
export default async function Item({params}) { return <><h1>Item {(await params).id} of the shop</h1><Link href="/">home</Link></>; }
