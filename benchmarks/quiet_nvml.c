/* A libnvidia-ml.so.1 of eight healthy GPUs, for benchmarks/node.py. Times are of the order of the real library's. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, GPUS = 8, LINKS = 18 };
typedef void *gpu;

static int number(unsigned *out, unsigned value) {
  usleep(200);
  *out = value;
  return OK;
}
static int text(char *out, unsigned size, const char *value) {
  snprintf(out, size, "%s", value);
  return OK;
}

const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Success"; }
int nvmlInit_v2(void) {
  usleep(200000);
  return OK;
}
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, "580.82.07"); }
int nvmlDeviceGetCount_v2(unsigned *out) { return number(out, GPUS); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu *out) {
  *out = (gpu)(unsigned long)(index + 1);
  return OK;
}
int nvmlDeviceGetName(gpu g, char *out, unsigned size) { return text(out, size, "NVIDIA H100 80GB HBM3"); }
int nvmlDeviceGetUUID(gpu g, char *out, unsigned size) {
  snprintf(out, size, "GPU-%08lx", (unsigned long)g);
  return OK;
}
int nvmlDeviceGetPciInfo_v3(gpu g, char *out) {
  memset(out, 0, 68);
  snprintf(out + 36, 32, "00000000:%02lX:00.0", (unsigned long)g + 26);
  return OK;
}
int nvmlDeviceGetMemoryInfo_v2(gpu g, unsigned long long *out) {
  out[1] = 85520809984ULL, out[2] = 0, out[3] = 85520809984ULL, out[4] = 0;
  return OK;
}
int nvmlDeviceGetUtilizationRates(gpu g, unsigned *out) { return number(out, 0); }
int nvmlDeviceGetPowerUsage(gpu g, unsigned *out) { return number(out, 70000); }
int nvmlDeviceGetTemperature(gpu g, unsigned kind, unsigned *out) { return number(out, 30); }
int nvmlDeviceGetClockInfo(gpu g, unsigned kind, unsigned *out) { return number(out, 1980); }
int nvmlDeviceGetMaxClockInfo(gpu g, unsigned kind, unsigned *out) { return number(out, 1980); }
int nvmlDeviceGetMigMode(gpu g, unsigned *now, unsigned *next) { return number(now, 0) + number(next, 0); }
int nvmlDeviceGetEccMode(gpu g, unsigned *now, unsigned *next) { return number(now, 1) + number(next, 1); }
int nvmlDeviceGetTotalEccErrors(gpu g, unsigned kind, unsigned counter, unsigned long long *out) {
  *out = 0;
  return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(gpu g, unsigned *out) { return NOT_SUPPORTED; }
int nvmlDeviceGetRemappedRows(gpu g, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
  *a = *b = *c = *d = 0;
  return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(gpu g, unsigned long long *out) {
  *out = 0;
  return OK;
}
int nvmlDeviceGetGpuFabricInfo(gpu g, unsigned *out) {
  memset(out, 0, 28);
  out[6] = 3;
  return OK;
}
int nvmlDeviceGetGpuFabricInfoV(gpu g, unsigned char *out) {
  out[36] = 1;
  return OK;
}
int nvmlDeviceGetSramEccErrorStatus(gpu g, char *out) {
  memset(out + 8, 0, 96);
  return OK;
}
int nvmlDeviceGetNvLinkState(gpu g, unsigned link, unsigned *out) { return number(out, 1); }
int nvmlDeviceGetMaxMigDeviceCount(gpu g, unsigned *out) { return NOT_SUPPORTED; }

struct field {
  unsigned id, scope;
  long long when, latency;
  unsigned kind, status;
  unsigned long long value;
};
int nvmlDeviceGetFieldValues(gpu g, int count, struct field *found) {
  for (int i = 0; i < count; i++) {
    found[i].kind = 3, found[i].status = OK;
    found[i].value = found[i].id == 91 ? LINKS : found[i].id == 164 ? 26562 : 0;
  }
  return OK;
}
