export default {output: 'export', eslint: {ignoreDuringBuilds: true}, typescript: {ignoreBuildErrors: true}};
