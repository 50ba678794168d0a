import type { Auth } from '../model/source.ts';
import { joinSecrets, splitSecrets, type AuthSecrets } from '../system/auth-secrets.ts';
import type { JobWork } from '../system/job-work.ts';
import type { Jobs, NewJob } from '../system/jobs.ts';
import type { Secrets } from '../system/secrets.ts';

interface WithAuth {
  request?: { auth?: Auth };
}

/** Authentication given explicitly in a request holds secrets: they are sealed, and the job is stored without them. */
export class OperationSecrets {
  readonly #secrets: Secrets;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  async submit(jobs: Jobs, job: NewJob): Promise<{ jobId: string; isNew: boolean }> {
    const params = job.opParams as WithAuth;
    if (!params.request?.auth) return jobs.submit(job);
    const { open, secrets } = splitSecrets(params.request.auth);
    const opParams = { ...params, request: { ...params.request, auth: open } };
    return jobs.submit({ ...job, opParams }, (jobId) =>
      this.#secrets.put(nameOf(jobId), JSON.stringify(secrets)),
    );
  }

  /** The parameters as they were submitted; null: their secrets went with the job's other leftovers. */
  async complete({ jobId, opParams }: Pick<JobWork, 'jobId' | 'opParams'>): Promise<unknown> {
    const params = opParams as WithAuth;
    if (!params.request?.auth) return params;
    const sealed = await this.#secrets.get(nameOf(jobId));
    if (sealed === null) return null;
    const secrets = JSON.parse(sealed) as AuthSecrets;
    return { ...params, request: { ...params.request, auth: joinSecrets(params.request.auth, secrets) } };
  }

  async delete(jobId: string): Promise<void> {
    await this.#secrets.delete(nameOf(jobId));
  }
}

function nameOf(jobId: string): string {
  return `job:${jobId}`;
}
