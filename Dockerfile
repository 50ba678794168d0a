FROM node:24-bookworm-slim AS dependencies
WORKDIR /opt/millrace
COPY package.json package-lock.json ./
RUN npm ci --omit=dev

FROM node:24-bookworm-slim
ENV NODE_ENV=production \
    MILLRACE_HOST=0.0.0.0 \
    MILLRACE_PORT=8080 \
    MILLRACE_DATA=/var/lib/millrace
WORKDIR /opt/millrace
COPY --from=dependencies /opt/millrace/node_modules ./node_modules
COPY package.json ./
COPY bin ./bin
COPY src ./src
RUN useradd --system --uid 10001 --home-dir /var/lib/millrace millrace \
 && install -d -o millrace -g millrace -m 0700 /var/lib/millrace
USER millrace
VOLUME /var/lib/millrace
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.MILLRACE_PORT + '/health/ready').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/opt/millrace/bin/millrace"]
CMD ["serve"]
