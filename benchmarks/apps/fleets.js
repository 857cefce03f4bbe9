// The template of fleets.py in CDK's own language, as one would write it there, nothing decided or checked:
// `node fleets.js COUNT RECIPE`. Of the recipe it takes texts only (user data, image parameter, software of the nodes).
"use strict";

const { readFileSync } = require("node:fs");
const cdk = require("aws-cdk-lib");
const autoscaling = require("aws-cdk-lib/aws-autoscaling");
const cloudwatch = require("aws-cdk-lib/aws-cloudwatch");
const ec2 = require("aws-cdk-lib/aws-ec2");
const events = require("aws-cdk-lib/aws-events");
const iam = require("aws-cdk-lib/aws-iam");
const lambda = require("aws-cdk-lib/aws-lambda");
const logs = require("aws-cdk-lib/aws-logs");
const sqs = require("aws-cdk-lib/aws-sqs");
const ssm = require("aws-cdk-lib/aws-ssm");
const stepfunctions = require("aws-cdk-lib/aws-stepfunctions");
const { Construct } = require("constructs");

const TYPE = "p5.48xlarge";
const ZONE = "us-east-1a";
const SUBNET = "subnet-0123456789abcdef0";
const NODES = 16;

class Fabric extends ec2.SecurityGroup {
  constructor(scope, id, vpc) {
    super(scope, id, { vpc, description: "EFA fabric: members exchange all traffic" });
    const rules = new Construct(this, "SelfRules");
    const groupId = this.securityGroupId;
    new ec2.CfnSecurityGroupIngress(rules, "Ingress", {
      groupId,
      sourceSecurityGroupId: groupId,
      ipProtocol: "-1",
      description: "EFA: all traffic from this group",
    });
    new ec2.CfnSecurityGroupEgress(rules, "Egress", {
      groupId,
      destinationSecurityGroupId: groupId,
      ipProtocol: "-1",
      description: "EFA: all traffic to this group",
    });
  }
}

class ReservationFunction extends Construct {
  constructor(scope, id, { policy, code }) {
    super(scope, id);
    const role = new iam.Role(this, "Role", { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
    const made = new lambda.CfnFunction(this, "Resource", {
      runtime: "python3.14",
      handler: "index.handler",
      code: { zipFile: code },
      role: role.roleArn,
      timeout: 300,
    });
    made.node.addDependency(
      new iam.CfnManagedPolicy(this, "Policy", { policyDocument: policy, roles: [role.roleName] }),
    );
    this.arn = made.attrArn;
  }
}

const OWN_RECORDS = "i-*/${aws:Ec2InstanceSourcePrivateIPv4}";

class Reservation extends Construct {
  constructor(scope, id, placementGroup, serviceToken) {
    super(scope, id);
    const reservation = new cdk.CfnResource(this, "InGroup", {
      type: "Custom::EC2CapacityReservation",
      properties: {
        ServiceToken: serviceToken,
        ServiceTimeout: 900,
        InstanceType: TYPE,
        InstanceCount: NODES,
        InstancePlatform: "Linux/UNIX",
        AvailabilityZone: ZONE,
        EndDateType: "unlimited",
        InstanceMatchCriteria: "targeted",
        PlacementGroupArn: cdk.Stack.of(this).formatArn({
          service: "ec2",
          resource: "placement-group",
          resourceName: placementGroup.placementGroupName,
        }),
        Tags: { Name: this.node.path },
      },
    });
    new cloudwatch.Alarm(this, "Unused", {
      metric: new cloudwatch.Metric({
        namespace: "AWS/EC2CapacityReservations",
        metricName: "AvailableInstanceCount",
        dimensionsMap: { CapacityReservationId: reservation.ref },
        statistic: "Minimum",
        period: cdk.Duration.minutes(5),
      }),
      threshold: 0,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 12,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      alarmDescription: `Reserved ${TYPE} instances were unused for 60 minutes`,
    });
  }
}

class Fleet extends Construct {
  constructor(scope, id, { fabric, placementGroup, sessions, software, texts }) {
    super(scope, id);
    const logGroup = new logs.LogGroup(this, "Logs", {
      retention: logs.RetentionDays.ONE_MONTH,
      removalPolicy: cdk.RemovalPolicy.DESTROY,
    });
    const role = new iam.Role(this, "Role", {
      assumedBy: new iam.ServicePrincipal("ec2.amazonaws.com"),
      managedPolicies: [sessions, software],
    });
    const template = this.#launchTemplate({ fabric, placementGroup, role, logGroup, texts });
    const group = this.#group(template);
    this.#allow(role, group, logGroup, this.#jobs(group, logGroup));
    alarms(new Construct(this, "Alarms"), { path: this.node.path, group, fleet: this });
  }

  #launchTemplate({ fabric, placementGroup, role, logGroup, texts }) {
    const profile = new iam.InstanceProfile(this, "InstanceProfile", { role });
    const tags = [{ key: "Name", value: this.node.path }];
    return new ec2.CfnLaunchTemplate(new Construct(this, "LaunchTemplate"), "Resource", {
      launchTemplateData: {
        instanceType: TYPE,
        imageId: texts.imageId,
        iamInstanceProfile: { arn: profile.instanceProfileArn },
        instanceMarketOptions: { marketType: "spot" },
        placement: { groupName: placementGroup.placementGroupName },
        userData: cdk.Fn.base64(texts.userData(this.node.path, logGroup.logGroupName)),
        networkInterfaces: Array.from({ length: 33 }, (_, index) => ({
          networkCardIndex: Math.max(0, index - 1),
          deviceIndex: index === 1 ? 1 : 0,
          interfaceType: index === 0 ? "interface" : "efa-only",
          groups: [fabric.securityGroupId],
          deleteOnTermination: true,
        })),
        blockDeviceMappings: [
          {
            deviceName: "/dev/xvda",
            ebs: {
              volumeType: "gp3",
              volumeSize: 200,
              iops: 3000,
              throughput: 250,
              encrypted: true,
              deleteOnTermination: true,
            },
          },
        ],
        metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
        monitoring: { enabled: true },
        tagSpecifications: ["instance", "volume", "network-interface"].map((resourceType) => ({
          resourceType,
          tags,
        })),
      },
    });
  }

  #group(template) {
    const group = new autoscaling.CfnAutoScalingGroup(this, "Resource", {
      minSize: String(NODES),
      maxSize: String(NODES),
      vpcZoneIdentifier: [SUBNET],
      launchTemplate: { launchTemplateId: template.ref, version: template.attrLatestVersionNumber },
      healthCheckType: "EC2",
      healthCheckGracePeriod: 300,
      lifecycleHookSpecificationList: [
        {
          lifecycleHookName: "node-ready",
          lifecycleTransition: "autoscaling:EC2_INSTANCE_LAUNCHING",
          heartbeatTimeout: 1800,
          defaultResult: "ABANDON",
        },
        {
          lifecycleHookName: "node-drain",
          lifecycleTransition: "autoscaling:EC2_INSTANCE_TERMINATING",
          heartbeatTimeout: 300,
          defaultResult: "CONTINUE",
        },
      ],
      metricsCollection: [{ granularity: "1Minute" }],
    });
    cdk.Tags.of(group).add("Name", this.node.path);
    return group;
  }

  #jobs(group, logGroup) {
    const document = new ssm.CfnDocument(new Construct(this, "Jobs"), "Resource", {
      documentType: "Command",
      documentFormat: "JSON",
      targetType: "/AWS::EC2::Instance",
      updateMethod: "NewVersion",
      content: {
        schemaVersion: "2.2",
        description: "Start or stop the job that the parameter of this GPU fleet requests.",
        mainSteps: [
          {
            action: "aws:runShellScript",
            name: "sync",
            inputs: {
              timeoutSeconds: "120",
              runCommand: ["if [ -x /usr/local/bin/gpunode ]; then exec /usr/local/bin/gpunode job sync; fi"],
            },
          },
        ],
      },
    });
    const parameter = new ssm.CfnParameter(new Construct(this, "JobRequest"), "Resource", {
      type: "String",
      value: "none",
      description: "The newest job of this GPU fleet; gpu-clusters run writes it, and the nodes read it.",
    });
    for (const [name, value] of [
      ["job-document", document.ref],
      ["job-parameter", parameter.ref],
      ["log-group", logGroup.logGroupName],
    ]) {
      cdk.Tags.of(group).add(`gpu-clusters:${name}`, value, { applyToLaunchedInstances: false });
    }
    return parameter;
  }

  #allow(role, group, logGroup, parameter) {
    const groupArn = cdk.Stack.of(this).formatArn({
      service: "autoscaling",
      resource: `autoScalingGroup:*:autoScalingGroupName/${cdk.Aws.STACK_NAME}-${group.logicalId}-*`,
      arnFormat: cdk.ArnFormat.COLON_RESOURCE_NAME,
    });
    const peers = [
      "autoscaling:DescribeAutoScalingInstances",
      "autoscaling:DescribeAutoScalingGroups",
      "autoscaling:DescribeScalingActivities",
      "ec2:DescribeInstances",
      "ec2:DescribeInstanceTopology",
    ];
    const streams = (name) =>
      cdk.Stack.of(this).formatArn({
        service: "logs",
        resource: `log-group:${logGroup.logGroupName}:log-stream:${name}`,
        arnFormat: cdk.ArnFormat.NO_RESOURCE_NAME,
      });
    const permissions = new iam.ManagedPolicy(this, "NodePermissions", {
      roles: [role],
      statements: [
        new iam.PolicyStatement({
          actions: [
            "autoscaling:CompleteLifecycleAction",
            "autoscaling:RecordLifecycleActionHeartbeat",
            "autoscaling:SetInstanceHealth",
          ],
          resources: [groupArn],
        }),
        new iam.PolicyStatement({ actions: peers, resources: ["*"] }),
        new iam.PolicyStatement({
          actions: ["logs:CreateLogStream", "logs:PutLogEvents"],
          resources: [streams(OWN_RECORDS), streams(`${OWN_RECORDS}/metrics`), streams(`jobs/*/${OWN_RECORDS}`)],
        }),
        new iam.PolicyStatement({
          actions: ["logs:CreateLogStream"],
          resources: [streams("repairs/*"), streams("replaced/*")],
        }),
        new iam.PolicyStatement({ actions: ["logs:DescribeLogStreams"], resources: [logGroup.logGroupArn] }),
        new iam.PolicyStatement({ actions: ["logs:GetLogEvents"], resources: [streams("jobs/*/files")] }),
        new iam.PolicyStatement({
          actions: ["ssm:GetParameter"],
          resources: [
            cdk.Stack.of(this).formatArn({ service: "ssm", resource: "parameter", resourceName: parameter.ref }),
          ],
        }),
      ],
    });
    // CDK writes one action as a text.
    for (const [index, action] of [
      [3, "logs:CreateLogStream"],
      [4, "logs:DescribeLogStreams"],
      [5, "logs:GetLogEvents"],
      [6, "ssm:GetParameter"],
    ]) {
      permissions.node.defaultChild.addPropertyOverride(`PolicyDocument.Statement.${index}.Action`, [action]);
    }
    group.node.addDependency(permissions);
  }
}

const COST = "CloudWatch bills each alarm.";
const WINDOW = 120;

// Metric, statistic, threshold and words of each alarm on what the nodes measure.
const NODE_ALARMS = {
  UnhealthyNode: [
    "UnhealthyNodes",
    "Maximum",
    1,
    "The watchdog of a node asks for a GPU reset, a reboot or another node, or is silent; the fleet's log group shows why.",
  ],
  BootFailure: [
    "BootFailures",
    "Sum",
    1,
    "A node failed its boot; the fleet's log group shows at which stage, why, and what to do.",
  ],
  Xid: [
    "Xids",
    "Sum",
    1,
    "The driver reported an Xid that asks for a reset of a GPU, a reboot or another node; the fleet's log group " +
      "names which one.",
  ],
  Idle: [
    "IdleSeconds",
    "Minimum",
    3600,
    "All GPUs of the fleet were idle for 60 minutes, at the full price of its nodes: scale it in, or raise " +
      "idle_minutes.",
  ],
};

const ALARM = {
  comparisonOperator: "GreaterThanOrEqualToThreshold",
  evaluationPeriods: 1,
  treatMissingData: "notBreaching",
};

function alarms(scope, { path, group, fleet }) {
  for (const [id, [metricName, statistic, threshold, words]] of Object.entries(NODE_ALARMS)) {
    new cloudwatch.CfnAlarm(scope, id, {
      ...ALARM,
      alarmDescription: `${words} ${COST}`,
      namespace: "GpuCluster",
      metricName,
      dimensions: [{ name: "Fleet", value: path }],
      statistic,
      period: 300,
      threshold,
    });
  }
  launchStop(scope, { path, group, fleet });
}

function launchStop(scope, { path, group, fleet }) {
  const groupName = group.ref;
  const machines = new Construct(fleet, "StateMachines");
  const logGroup = new logs.CfnLogGroup(machines, "Logs", {
    logGroupName: cdk.Fn.join("/", ["/aws/vendedlogs/states", cdk.Aws.STACK_NAME, fleet.node.id]),
    retentionInDays: 30,
  });
  logGroup.applyRemovalPolicy(cdk.RemovalPolicy.DESTROY);
  const queue = new sqs.CfnQueue(machines, "Undelivered", {
    sqsManagedSseEnabled: true,
    messageRetentionPeriod: 14 * 24 * 60 * 60,
  });
  queue.applyRemovalPolicy(cdk.RemovalPolicy.DESTROY);
  new cloudwatch.CfnAlarm(scope, "UndeliveredEvents", {
    ...ALARM,
    alarmDescription:
      "EventBridge could not start a state machine of the fleet; the queue of undelivered events has the event. " +
      COST,
    namespace: "AWS/SQS",
    metricName: "ApproximateNumberOfMessagesVisible",
    dimensions: [{ name: "QueueName", value: queue.attrQueueName }],
    statistic: "Maximum",
    period: 300,
    threshold: 1,
  });
  const alarmName = cdk.Fn.join("-", [cdk.Aws.STACK_NAME, `${path.replaceAll("/", "-")}-LaunchLoop`]);
  const role = new iam.CfnRole(scope, "StopLaunchesRole", {
    assumeRolePolicyDocument: {
      Version: "2012-10-17",
      Statement: [
        {
          Effect: "Allow",
          Principal: { Service: ["events.amazonaws.com", "states.amazonaws.com"] },
          Action: "sts:AssumeRole",
          Condition: { StringEquals: { "aws:SourceAccount": cdk.Aws.ACCOUNT_ID } },
        },
      ],
    },
  });
  const machine = stopLaunches(scope, role, alarmName, logGroup);
  machine.addResourceDependency(stopLaunchesPolicy(scope, role, groupName));
  const targets = (action) => [
    {
      id: "Run",
      input: JSON.stringify({ action, group: groupName }),
      arn: machine.attrArn,
      roleArn: role.attrArn,
      retryPolicy: { maximumEventAgeInSeconds: 300, maximumRetryAttempts: 10 },
      deadLetterConfig: { arn: queue.attrArn },
    },
  ];
  const rule = new events.CfnRule(scope, "AbandonedLaunch", {
    description: "Launches that got an instance and lost it",
    eventPattern: {
      source: ["aws.autoscaling"],
      "detail-type": ["EC2 Instance Launch Unsuccessful"],
      detail: { AutoScalingGroupName: [groupName], EC2InstanceId: [{ prefix: "i-" }] },
    },
    state: "ENABLED",
    targets: targets("look"),
  });
  const alarm = launchLoop(scope, { groupName, rule, alarmName });
  const raised = new events.CfnRule(scope, "LaunchLoopRaised", {
    description: "The launches of the group fail again and again",
    eventPattern: {
      source: ["aws.cloudwatch"],
      "detail-type": ["CloudWatch Alarm State Change"],
      resources: [alarm.attrArn],
      detail: { state: { value: ["ALARM"] } },
    },
    state: "ENABLED",
    targets: targets("stop"),
  });
  new iam.CfnManagedPolicy(scope, "StopLaunchesStartPolicy", {
    policyDocument: {
      Version: "2012-10-17",
      Statement: [{ Effect: "Allow", Action: ["states:StartExecution"], Resource: machine.attrArn }],
    },
    roles: [role.ref],
  });
  new sqs.CfnQueuePolicy(machines, "UndeliveredPolicy", {
    queues: [queue.ref],
    policyDocument: {
      Version: "2012-10-17",
      Statement: [
        {
          Effect: "Allow",
          Principal: { Service: "events.amazonaws.com" },
          Action: "sqs:SendMessage",
          Resource: queue.attrArn,
          Condition: { ArnEquals: { "aws:SourceArn": [rule.attrArn, raised.attrArn] } },
        },
        {
          Effect: "Deny",
          Principal: "*",
          Action: "sqs:*",
          Resource: queue.attrArn,
          Condition: { Bool: { "aws:SecureTransport": "false" } },
        },
      ],
    },
  });
}

function stopLaunchesPolicy(scope, role, groupName) {
  const groupArn = cdk.Stack.of(scope).formatArn({
    service: "autoscaling",
    resource: `autoScalingGroup:*:autoScalingGroupName/${groupName}`,
    arnFormat: cdk.ArnFormat.COLON_RESOURCE_NAME,
  });
  const alarmsArn = cdk.Stack.of(scope).formatArn({
    service: "cloudwatch",
    resource: "alarm:*",
    arnFormat: cdk.ArnFormat.NO_RESOURCE_NAME,
  });
  const anywhere = [
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
  ];
  return new iam.CfnManagedPolicy(scope, "StopLaunchesPolicy", {
    policyDocument: {
      Version: "2012-10-17",
      Statement: [
        { Effect: "Allow", Action: ["autoscaling:SuspendProcesses"], Resource: groupArn },
        { Effect: "Allow", Action: ["cloudwatch:DescribeAlarms"], Resource: alarmsArn },
        { Effect: "Allow", Action: anywhere, Resource: "*" },
      ],
    },
    roles: [role.ref],
  });
}

function launchLoop(scope, { groupName, rule, alarmName }) {
  const query = (id, namespace, metricName, stat, name, value) => ({
    id,
    metricStat: { metric: { namespace, metricName, dimensions: [{ name, value }] }, period: 60 * WINDOW, stat },
    returnData: false,
  });
  const group = ["AutoScalingGroupName", groupName];
  return new cloudwatch.CfnAlarm(scope, "LaunchLoop", {
    ...ALARM,
    alarmName,
    alarmDescription:
      `3 launches or more for each missing node were abandoned within ${WINDOW} minutes; the fleet's log group shows ` +
      "why. Launching is suspended. Nodes that still fail are kept for 120 minutes: aws ssm start-session --target " +
      "INSTANCE. When the cause is gone: aws autoscaling resume-processes --scaling-processes Launch " +
      `--auto-scaling-group-name ${groupName} . ${COST}`,
    threshold: 3,
    metrics: [
      {
        id: "short",
        expression: "IF(desired - ready > 1, FILL(failed, 0) / (desired - ready), FILL(failed, 0))",
        label: "Abandoned launches for each missing node",
      },
      query("failed", "AWS/Events", "TriggeredRules", "Sum", "RuleName", rule.ref),
      query("desired", "AWS/AutoScaling", "GroupDesiredCapacity", "Maximum", ...group),
      query("ready", "AWS/AutoScaling", "GroupInServiceInstances", "Minimum", ...group),
    ],
  });
}

function stopLaunches(scope, role, alarmName, logGroup) {
  const Retry = [{ ErrorEquals: ["States.ALL"], IntervalSeconds: 30, MaxAttempts: 10, BackoffRate: 1 }];
  const sdk = `arn:${cdk.Stack.of(scope).partition}:states:::aws-sdk`;
  const definition = {
    Comment: "Suspends launching while the alarm is raised",
    TimeoutSeconds: 900,
    StartAt: "Which",
    States: {
      Which: {
        Type: "Choice",
        Choices: [{ Variable: "$.action", StringEquals: "stop", Next: "Suspend" }],
        Default: "LookAtAlarm",
      },
      LookAtAlarm: {
        Type: "Task",
        Resource: `${sdk}:cloudwatch:describeAlarms`,
        Parameters: { AlarmNames: ["${Alarm}"] },
        ResultSelector: { "state.$": "$.MetricAlarms[0].StateValue" },
        ResultPath: "$.alarm",
        Retry,
        Next: "IsRaised",
      },
      IsRaised: {
        Type: "Choice",
        Choices: [{ Variable: "$.alarm.state", StringEquals: "ALARM", Next: "Suspend" }],
        Default: "GoOn",
      },
      Suspend: {
        Type: "Task",
        Resource: `${sdk}:autoscaling:suspendProcesses`,
        Parameters: { "AutoScalingGroupName.$": "$.group", ScalingProcesses: ["Launch"] },
        Retry,
        End: true,
      },
      GoOn: { Type: "Succeed" },
    },
  };
  return new stepfunctions.CfnStateMachine(scope, "StopLaunches", {
    definitionString: JSON.stringify(definition),
    definitionSubstitutions: { Alarm: alarmName },
    roleArn: role.attrArn,
    loggingConfiguration: {
      destinations: [{ cloudWatchLogsLogGroup: { logGroupArn: logGroup.attrArn } }],
      includeExecutionData: true,
      level: "ALL",
    },
    tracingConfiguration: { enabled: true },
  });
}

// The texts of the one launch template in the recipe, for any fleet.
function textsOf(recipe) {
  const fleet = Object.values(JSON.parse(recipe.fleet));
  const data = fleet.find((resource) => resource.Type === "AWS::EC2::LaunchTemplate").Properties.LaunchTemplateData;
  const source = data.UserData["Fn::Base64"];
  const parts = typeof source === "string" ? [source] : source["Fn::Join"][1];
  return (stack) => ({
    imageId: cdk.Fn.ref(data.ImageId.Ref),
    userData: (path, logGroupName) =>
      parts
        .map((part) => {
          if (typeof part === "string") return part.replace("Fleets@stack@/Fleet@fleet@", path);
          if (part.Ref?.endsWith("Logs")) return logGroupName;
          return cdk.Token.asString(part);
        })
        .join(""),
  });
}

function main() {
  const count = Number(process.argv[2]);
  const recipe = JSON.parse(readFileSync(process.argv[3], "utf8"));
  const texts = textsOf(recipe);
  const app = new cdk.App();
  for (let first = 0; first < count; first += recipe.fleets_per_stack) {
    const number = String(first / recipe.fleets_per_stack).padStart(4, "0");
    const env = { account: "123456789012", region: "us-east-1" };
    const stack = new cdk.Stack(app, `Fleets${number}`, { env });
    const vpc = ec2.Vpc.fromVpcAttributes(stack, "Vpc", { vpcId: "vpc-0123456789abcdef0", availabilityZones: [ZONE] });
    for (const [name, parameter] of Object.entries(recipe.parameters)) {
      new cdk.CfnParameter(stack, name, { type: parameter.Type, default: parameter.Default });
    }
    const fabric = new Fabric(stack, "Fabric", vpc);
    const software = new iam.ManagedPolicy(new Construct(stack, "GpuNodeSoftware"), "Read", {
      document: iam.PolicyDocument.fromJson(recipe.shared.GpuNodeSoftwareRead.Properties.PolicyDocument),
    });
    const sessions = new iam.ManagedPolicy(stack, "GpuNodeSessions", {
      statements: [
        new iam.PolicyStatement({
          actions: [
            "ssmmessages:CreateControlChannel",
            "ssmmessages:CreateDataChannel",
            "ssmmessages:OpenControlChannel",
            "ssmmessages:OpenDataChannel",
            "ssm:UpdateInstanceInformation",
          ],
          resources: ["*"],
        }),
      ],
    });
    const maker = new ReservationFunction(stack, "ReservationFunction", {
      policy: recipe.shared.ReservationFunctionPolicy.Properties.PolicyDocument,
      code: recipe.shared.ReservationFunction.Properties.Code.ZipFile,
    });
    for (let index = first; index < Math.min(count, first + recipe.fleets_per_stack); index += 1) {
      const suffix = String(index).padStart(4, "0");
      const placementGroup = new ec2.PlacementGroup(stack, `Placement${suffix}`, {
        strategy: ec2.PlacementGroupStrategy.CLUSTER,
      });
      new Reservation(stack, `Reservation${suffix}`, placementGroup, maker.arn);
      new Fleet(stack, `Fleet${suffix}`, { fabric, placementGroup, sessions, software, texts: texts(stack) });
    }
  }
  app.synth();
}

main();
