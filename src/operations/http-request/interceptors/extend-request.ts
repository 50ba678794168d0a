import { withParameters } from '../url.ts';
import { refuseUnknown, type Interceptor } from './interceptor.ts';

/** Contract 2.3: adds URL parameters and headers; existing ones of the same name are overwritten. */
export const extendRequest: Interceptor = {
  names: ['extendRequest'],

  prepare({ ...params }, path) {
    refuseUnknown(params, ['parameters', 'headers'], `${path}.params`);
    return (request) => {
      const headers = request.headers.clone();
      headers.setFromObject(params.headers, 'interceptor', `${path}.params.headers`);
      const { url } = withParameters(request.url, params.parameters, `${path}.params.parameters`);
      return { ...request, url, headers };
    };
  },
};
